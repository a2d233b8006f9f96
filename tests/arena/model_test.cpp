// Random operations against a model that is too simple to be wrong: a map from address to size.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "arena/made_up_memory.h"
#include "arena/watching.h"
#include "catch.h"

using namespace cubfc::arena;

namespace {

struct Operation {
  enum Kind : std::uint8_t {
    kAllocate,
    kFree,
    kRetireAndReclaim,
    kProbe,
    kTrim,
    kGather,
    kReclaim
  };
  Kind kind;
  std::uint64_t bytes;  // of an allocation
  std::uint32_t pick;   // which live block, modulo their number
};

std::vector<Operation> random_operations(std::uint32_t seed, std::size_t count) {
  std::minstd_rand random(seed + 1);
  const auto dice_of = [&](std::uint32_t sides) {
    return static_cast<std::uint32_t>(random()) % sides;
  };
  const double mean_bits =
      std::uniform_real_distribution(9.0, seed % 12 == 11 ? 14.0 : 22.0)(random);
  const bool few_sizes = seed % 12 != 11 && dice_of(3) == 0;
  std::vector<std::uint64_t> sizes;
  for (int i = 0; i < 12; ++i) {
    sizes.push_back(1 + dice_of(1U << (10 + dice_of(14))));
  }
  // Phases that fill and phases that drain; or one of each, so that thousands of blocks are live.
  const bool many_blocks = seed % 12 == 11;
  const std::size_t phase = many_blocks ? count / 2 : 400;
  const std::uint32_t filling = many_blocks ? 92 : 58;
  const std::uint32_t draining = many_blocks ? 8 : 38;
  std::vector<Operation> operations;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t dice = dice_of(100);
    const std::uint32_t fill = (i / phase) % 2 == 0 ? filling : draining;
    Operation operation{};
    operation.kind = dice < fill ? Operation::kAllocate
                     : dice < 80 ? Operation::kFree
                     : dice < 93 ? Operation::kGather
                     : dice < 94 ? Operation::kReclaim
                     : dice < 96 ? Operation::kRetireAndReclaim
                     : dice < 99 ? Operation::kProbe
                                 : Operation::kTrim;
    operation.bytes = few_sizes ? sizes[dice_of(12)]
                                : 1 + static_cast<std::uint64_t>(std::lognormal_distribution(
                                          mean_bits * 0.69, 1.5)(random));
    operation.pick = dice_of(1U << 30);
    operations.push_back(operation);
  }
  return operations;
}

// Runs the operations on an arena and on the model. Returns what is wrong, or nothing.
std::string run(const std::vector<Operation>& operations, const Options& options) {
  MadeUpMemory memory(kGiB);
  const bool aligned = operations.back().pick % 2 == 0;
  memory.align_to(aligned ? 2 * kMiB : kGranuleBytes);
  Budget budget(900 * kMiB);
  Arena arena(memory, budget, options);
  const Watching watching(arena);
  std::map<Address, std::uint64_t> model;
  std::map<Address, std::uint64_t> gathered;  // freed, and nobody's before they are reclaimed
  const std::uint32_t verify_every = operations.size() > 5000 ? 128 : 16;
  const auto pick = [&](std::uint32_t number) {
    return std::next(model.begin(), static_cast<std::ptrdiff_t>(number % model.size()));
  };
  for (const Operation& operation : operations) {
    if (operation.kind == Operation::kAllocate) {
      const auto caller = static_cast<Caller>((operation.pick / 2 % kCallers) |
                                              (operation.pick % 3 == 0 ? kMarked : 0));
      Allocation got = arena.allocate(operation.bytes, caller);
      if (got.address == 0 && operation.pick % 2 == 0) {
        got.address = arena.allocate_against_the_rule(operation.bytes, caller);
      }
      if (got.address == 0) {
        continue;
      }
      if (aligned && got.address % alignment_for(block_bytes_for(operation.bytes)) != 0) {
        return "a block is not aligned";
      }
      const auto after = model.lower_bound(got.address);
      if (after != model.end() && got.address + operation.bytes > after->first) {
        return "a block overlaps the next";
      }
      if (after != model.begin() &&
          std::prev(after)->first + std::prev(after)->second > got.address) {
        return "a block overlaps the one before";
      }
      const auto waits = gathered.lower_bound(got.address + operation.bytes);
      if (waits != gathered.begin() &&
          std::prev(waits)->first + std::prev(waits)->second > got.address) {
        return "a gathered block was handed out";
      }
      model[got.address] = operation.bytes;
    } else if (operation.kind == Operation::kTrim) {
      const std::uint64_t unused = arena.unused_bytes();
      if (arena.release_unused() != unused || arena.unused_bytes() != 0) {
        return "what is given back is not what was unused";
      }
    } else if (operation.kind == Operation::kReclaim) {
      const GatheredBlocks blocks = arena.take_gathered();
      if (blocks.count != gathered.size() || arena.has_gathered()) {
        return "what was gathered is not all there";
      }
      arena.reclaim(blocks);
      gathered.clear();
      if (arena.headroom().retired != 0) {
        return "what was gathered has not all come back";
      }
    } else if (!model.empty()) {
      const auto [address, bytes] = *pick(operation.pick);
      if (operation.kind == Operation::kProbe) {
        const auto found = arena.find_containing(address + operation.bytes % bytes);
        if (!found || found->address != address || found->bytes != bytes) {
          return "a live block is not found from inside";
        }
        if (arena.region_at(address) == 0) {
          return "a live block lies in no region";
        }
        continue;
      }
      if (operation.kind == Operation::kFree) {
        if (!arena.free(address)) {
          return "a live block cannot be freed";
        }
      } else if (operation.kind == Operation::kGather) {
        if (arena.gather(address, 0) == Arena::Gathered::kNot || arena.find_containing(address) ||
            arena.gather(address, 0) != Arena::Gathered::kNot || arena.free(address)) {
          return "a block cannot be gathered, or not only once";
        }
        gathered[address] = bytes;
      } else {
        const auto retired = arena.retire(address);
        if (!retired || arena.find_containing(address)) {
          return "a block cannot be retired";
        }
        const Allocation between = arena.allocate(operation.bytes);
        if (between.address != 0) {
          if (between.address < address + bytes && address < between.address + operation.bytes) {
            return "a retired block was handed out";
          }
          model[between.address] = operation.bytes;
        }
        // Its neighbours are freed, and regions that seem empty are given back.
        for (const bool before : {true, false}) {
          const auto here = model.find(address);
          const auto other =
              before ? (here == model.begin() ? here : std::prev(here)) : std::next(here);
          if (other != here && other != model.end()) {
            arena.free(other->first);
            model.erase(other);
          }
        }
        arena.release_unused();
        if (std::string problems = arena.verify(); !problems.empty()) {
          return problems;
        }
        if (operation.pick % 4 == 0) {
          if (arena.revive(*retired, bytes) != address) {
            return "a retired block does not come back";
          }
          continue;
        }
        arena.reclaim(*retired);
      }
      model.erase(address);
    }
    if (operation.pick % verify_every == 0) {
      if (std::string problems = arena.verify() + watching.disagreement(); !problems.empty()) {
        return problems;
      }
    }
  }
  arena.reclaim(arena.take_gathered());
  for (const auto& [address, bytes] : model) {
    arena.reclaim(*arena.retire(address));
  }
  arena.release_unused();
  if (memory.free_bytes() != kGiB || budget.used() != 0 || memory.wrong_releases != 0) {
    return "memory was lost";
  }
  if (operations.back().pick % 3 == 0) {
    arena.allocate(1);
    arena.abandon();
  }
  return arena.verify() + watching.disagreement();
}

// Removes operations as long as what remains still fails, so that the report is short.
std::vector<Operation> shrink(std::vector<Operation> operations, const Options& options) {
  for (std::size_t chunk = operations.size() / 2; chunk > 0; chunk /= 2) {
    for (std::size_t at = 0; at + chunk <= operations.size();) {
      std::vector<Operation> fewer = operations;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at),
                  fewer.begin() + static_cast<std::ptrdiff_t>(at + chunk));
      if (fewer.empty() || run(fewer, options).empty()) {
        at += chunk;
      } else {
        operations = fewer;
      }
    }
  }
  return operations;
}

}  // namespace

TEST_CASE("random operations agree with a simple model, and every invariant holds") {
  const char* wanted = std::getenv("CUBFC_TEST_SEEDS");
  const int seeds = wanted != nullptr ? std::atoi(wanted) : 240;
  for (int seed = 0; seed < seeds; ++seed) {
    const Options options[] = {
        {},
        {.preallocate_bytes = 512 * kMiB, .whole = true},
        {.preallocate_bytes = 20 * kMiB, .whole = true},
        {.slice_bytes = 8 * kMiB, .own_above_bytes = 256 * kKiB},
        {.preallocate_bytes = 200 * kMiB, .slice_bytes = 16 * kMiB, .own_above_bytes = kMiB},
    };
    const Options& of_seed = options[seed % 5];
    const std::size_t count = seed % 12 == 11 ? 12000 : 3000;
    const auto operations = random_operations(static_cast<std::uint32_t>(seed), count);
    const std::string problem = run(operations, of_seed);
    CHECK(problem.empty());
    if (!problem.empty()) {
      const bool quick = std::getenv("CUBFC_TEST_SHRINK") != nullptr;  // planted_faults.py sets it
      const auto fewest = quick ? operations : shrink(operations, of_seed);
      std::string text;
      for (const Operation& operation : fewest) {
        text += std::to_string(operation.kind) + " " + std::to_string(operation.bytes) + " " +
                std::to_string(operation.pick) + "\n";
      }
      FAIL("seed " << seed << ": " << problem << "\n" << fewest.size() << " operations:\n" << text);
    }
  }
}
