#include "arena/bins.h"

#include <algorithm>
#include <bit>

namespace cubfc::arena {

Bins::Place Bins::place_of_granules(std::uint32_t granules) {
  return {granules, 0, 0};
}

Bins::Place Bins::place_of_pages(std::uint32_t pages) {
  if (pages < kExactPages) {
    return {kFirstPageClass + pages, 0, 0};
  }
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(pages)) - 1;  // >= 6
  const std::uint32_t low_bits = exponent - 5;
  const std::uint32_t step = (pages >> low_bits) - kSteps;
  return {kFirstPageClass + kExactPages + (exponent - 6) * kSteps + step,
          pages & ((1U << low_bits) - 1), low_bits};
}

Bins::Place Bins::place_of(const Block& block) {
  const std::uint32_t pages = aligned_pages(block.start, block.granules);
  return pages > 0 ? place_of_pages(pages) : place_of_granules(block.granules);
}

void Bins::set_class(std::uint32_t size_class, BlockIndex root) {
  roots_[size_class] = root;
  const std::uint32_t word = size_class / 64;
  const std::uint64_t bit = std::uint64_t{1} << (size_class % 64);
  if (root != kNoBlock) {
    blocks_[root].hole.parent = kNoBlock;
    bitmap_[word] |= bit;
    summary_ |= std::uint64_t{1} << word;
  } else {
    bitmap_[word] &= ~bit;
    if (bitmap_[word] == 0) {
      summary_ &= ~(std::uint64_t{1} << word);
    }
  }
}

void Bins::insert(BlockIndex index) {
  Block& block = blocks_[index];
  const Place place = place_of(block);
  block.hole = {{kNoBlock, kNoBlock}, kNoBlock, index, index};
  block.in_trie = true;

  BlockIndex node = roots_[place.size_class];
  if (node == kNoBlock) {
    set_class(place.size_class, index);
    return;
  }
  for (std::uint32_t bit = place.low_bits;; --bit) {
    Block& here = blocks_[node];
    if (place.low_bits == 0 || place_of(here).low == place.low) {
      block.in_trie = false;  // a follower: behind the node in its ring
      block.hole.ring_next = here.hole.ring_next;
      block.hole.ring_previous = node;
      blocks_[here.hole.ring_next].hole.ring_previous = index;
      here.hole.ring_next = index;
      return;
    }
    BlockIndex& child = here.hole.child[(place.low >> (bit - 1)) & 1];
    if (child == kNoBlock) {
      child = index;
      block.hole.parent = node;
      return;
    }
    node = child;
  }
}

void Bins::remove(BlockIndex index) {
  Block& block = blocks_[index];
  const BlockIndex follower = block.hole.ring_next;
  blocks_[follower].hole.ring_previous = block.hole.ring_previous;
  blocks_[block.hole.ring_previous].hole.ring_next = follower;
  if (!block.in_trie) {
    return;
  }
  const std::uint32_t size_class = place_of(block).size_class;
  if (follower == index) {
    unlink_node(index, size_class);
    return;
  }
  // The next of equal size takes the node's place.
  Block& heir = blocks_[follower];
  heir.in_trie = true;
  heir.hole.child[0] = block.hole.child[0];
  heir.hole.child[1] = block.hole.child[1];
  for (const BlockIndex child : block.hole.child) {
    if (child != kNoBlock) {
      blocks_[child].hole.parent = follower;
    }
  }
  replace_in_parent(index, follower, size_class);
}

// A node without equals: any leaf below it may take its place, because a node's size only has to
// agree with the path above it.
void Bins::unlink_node(BlockIndex index, std::uint32_t size_class) {
  Block& block = blocks_[index];
  BlockIndex leaf = index;
  for (;;) {
    const Block::Hole& hole = blocks_[leaf].hole;
    if (hole.child[1] != kNoBlock) {
      leaf = hole.child[1];
    } else if (hole.child[0] != kNoBlock) {
      leaf = hole.child[0];
    } else {
      break;
    }
  }
  if (leaf == index) {
    replace_in_parent(index, kNoBlock, size_class);
    return;
  }
  replace_in_parent(leaf, kNoBlock, size_class);
  Block& heir = blocks_[leaf];
  for (int side = 0; side < 2; ++side) {
    const BlockIndex child = block.hole.child[side];
    heir.hole.child[side] = child;
    if (child != kNoBlock) {
      blocks_[child].hole.parent = leaf;
    }
  }
  replace_in_parent(index, leaf, size_class);
}

void Bins::replace_in_parent(BlockIndex index, BlockIndex replacement, std::uint32_t size_class) {
  const BlockIndex parent = blocks_[index].hole.parent;
  if (parent == kNoBlock) {
    set_class(size_class, replacement);
    return;
  }
  Block::Hole& hole = blocks_[parent].hole;
  hole.child[hole.child[1] == index ? 1 : 0] = replacement;
  if (replacement != kNoBlock) {
    blocks_[replacement].hole.parent = parent;
  }
}

BlockIndex Bins::best_fit(std::uint32_t granules) const {
  if (granules < kGranulesPerPage) {
    return first_fit_from_class(place_of_granules(granules).size_class);
  }
  const Place wanted = place_of_pages(granules / kGranulesPerPage);
  const BlockIndex same_class = best_in_class(wanted);
  return same_class != kNoBlock ? same_class : first_fit_from_class(wanted.size_class + 1);
}

// The smallest hole of the first non-empty class from size_class on.
BlockIndex Bins::first_fit_from_class(std::uint32_t size_class) const {
  std::uint32_t word = size_class / 64;
  if (word >= kWords) {
    return kNoBlock;
  }
  std::uint64_t candidates = bitmap_[word] & (~std::uint64_t{0} << (size_class % 64));
  if (candidates == 0) {
    const std::uint64_t above = word + 1 < 64 ? summary_ & (~std::uint64_t{0} << (word + 1)) : 0;
    if (above == 0) {
      return kNoBlock;
    }
    word = static_cast<std::uint32_t>(std::countr_zero(above));
    candidates = bitmap_[word];
  }
  return smallest_in(roots_[word * 64 + static_cast<std::uint32_t>(std::countr_zero(candidates))]);
}

// A follower when the node has one: taking it leaves the trie as it is.
BlockIndex Bins::spare(BlockIndex node) const {
  return blocks_[node].hole.ring_next;
}

// The smallest hole lies on the leftmost path: a node's size is bounded only by the path above it.
BlockIndex Bins::smallest_in(BlockIndex root) const {
  BlockIndex best = root;
  std::uint32_t best_low = place_of(blocks_[root]).low;
  for (BlockIndex node = root; best_low != 0;) {
    const Block::Hole& hole = blocks_[node].hole;
    node = hole.child[0] != kNoBlock ? hole.child[0] : hole.child[1];
    if (node == kNoBlock) {
      break;
    }
    if (const std::uint32_t low = place_of(blocks_[node]).low; low < best_low) {
      best = node;
      best_low = low;
    }
  }
  return spare(best);
}

BlockIndex Bins::best_in_class(const Place& wanted) const {
  BlockIndex node = roots_[wanted.size_class];
  if (node == kNoBlock || wanted.low_bits == 0) {
    return node == kNoBlock ? kNoBlock : spare(node);
  }
  BlockIndex best = kNoBlock;
  std::uint32_t best_low = 0;
  const auto consider = [&](BlockIndex candidate) {
    const std::uint32_t low = place_of(blocks_[candidate]).low;
    if (low >= wanted.low && (best == kNoBlock || low < best_low)) {
      best = candidate;
      best_low = low;
    }
  };
  // Down the path of the wanted size. The last subtree to its right holds the next larger sizes.
  BlockIndex larger = kNoBlock;
  for (std::uint32_t bit = wanted.low_bits; node != kNoBlock; --bit) {
    consider(node);
    if (bit == 0 || (best != kNoBlock && best_low == wanted.low)) {
      break;
    }
    const Block::Hole& hole = blocks_[node].hole;
    const std::uint32_t side = (wanted.low >> (bit - 1)) & 1;
    if (side == 0 && hole.child[1] != kNoBlock) {
      larger = hole.child[1];
    }
    node = hole.child[side];
  }
  if (larger != kNoBlock && (best == kNoBlock || best_low != wanted.low)) {
    for (node = larger; node != kNoBlock;) {
      consider(node);
      const Block::Hole& hole = blocks_[node].hole;
      node = hole.child[0] != kNoBlock ? hole.child[0] : hole.child[1];
    }
  }
  return best == kNoBlock ? kNoBlock : spare(best);
}

std::uint64_t Bins::largest_fit_bytes() const {
  if (summary_ == 0) {
    return 0;
  }
  const auto word = static_cast<std::uint32_t>(63 - std::countl_zero(summary_));
  const std::uint32_t size_class =
      word * 64 + static_cast<std::uint32_t>(63 - std::countl_zero(bitmap_[word]));
  if (size_class < kFirstPageClass) {
    // A request of 64 KiB or more needs an aligned page, and no hole has one.
    return std::uint64_t{std::min(size_class, kGranulesPerPage - 1)} * kGranuleBytes;
  }
  std::uint32_t pages = 0;
  for (BlockIndex node = roots_[size_class]; node != kNoBlock;) {
    const Block& block = blocks_[node];
    pages = std::max(pages, aligned_pages(block.start, block.granules));
    node = block.hole.child[1] != kNoBlock ? block.hole.child[1] : block.hole.child[0];
  }
  return pages * kPageBytes;
}

std::uint64_t Bins::verify(std::string& problems) const {
  std::uint64_t holes = 0;
  for (std::uint32_t size_class = 0; size_class < kClasses; ++size_class) {
    const bool marked = ((bitmap_[size_class / 64] >> (size_class % 64)) & 1) != 0;
    if (marked != (roots_[size_class] != kNoBlock)) {
      problems += "class " + std::to_string(size_class) + ": its bit and its list disagree\n";
    }
    holes += verify_trie(roots_[size_class], kNoBlock, size_class, 0, 0, problems);
  }
  for (std::uint32_t word = 0; word < kWords; ++word) {
    if (((summary_ >> word) & 1) != (bitmap_[word] != 0 ? 1U : 0U)) {
      problems += "summary bit " + std::to_string(word) + " is wrong\n";
    }
  }
  return holes;
}

std::uint64_t Bins::verify_trie(BlockIndex node, BlockIndex parent, std::uint32_t size_class,
                                std::uint32_t prefix, std::uint32_t depth,
                                std::string& problems) const {
  if (node == kNoBlock) {
    return 0;
  }
  const Block& block = blocks_[node];
  const Place place = place_of(block);
  if (place.size_class != size_class || depth > place.low_bits ||
      (place.low >> (place.low_bits - depth)) != prefix || block.hole.parent != parent ||
      !block.in_trie) {
    problems += "block " + std::to_string(node) + " is filed in the wrong place\n";
    return 0;
  }
  std::uint64_t holes = 0;
  BlockIndex member = node;
  do {
    const Block& equal = blocks_[member];
    if (equal.state != BlockState::kFree || place_of(equal).low != place.low ||
        place_of(equal).size_class != size_class || (member != node && equal.in_trie) ||
        blocks_[equal.hole.ring_next].hole.ring_previous != member) {
      problems += "block " + std::to_string(member) + " is in a ring where it does not belong\n";
      return holes;
    }
    ++holes;
    member = equal.hole.ring_next;
  } while (member != node);
  for (std::uint32_t side = 0; side < 2; ++side) {
    holes += verify_trie(block.hole.child[side], node, size_class, prefix * 2 + side, depth + 1,
                         problems);
  }
  return holes;
}

}  // namespace cubfc::arena
