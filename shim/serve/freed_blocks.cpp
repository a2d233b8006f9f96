#include "shim/serve/freed_blocks.h"

#include <algorithm>
#include <new>

#include "arena/epoch.h"
#include "shim/device/device.h"

namespace cubfc {
namespace {

// A lane that is empty stays for the next free of its stream, while there are no more than so many.
constexpr std::size_t kMostEmptyLanes = 8;

}  // namespace

FreedBlocks::FreedBlocks() {
  lanes_.try_emplace(Order{});
}

bool FreedBlocks::add(Context& owner, CUdeviceptr address, Context* other) {
  const std::lock_guard lock(mutex_);
  // What needs memory comes before any change.
  if (open_.empty()) {
    open_.emplace_back();
    open_.front().lane = &lanes_.begin()->second;
  }
  Epoch& open = open_.front();
  if (other != nullptr &&
      std::find(open.others.begin(), open.others.end(), other) == open.others.end()) {
    open.others.push_back(other);
  }
  Block& block = open.blocks.emplace_back();
  block.context = &owner;
  if (!owner.device.server->retire(owner, address, block.retired)) {
    open.blocks.pop_back();
    return false;
  }
  epochs_ += open.blocks.size() == 1 ? 1 : 0;
  open.bytes += block.retired.block.bytes;
  any_.store(true, std::memory_order_release);
  full_.store(arena::is_epoch_full(open.blocks.size(), open.bytes, owner.headroom()),
              std::memory_order_release);
  return true;
}

bool FreedBlocks::add(Context& owner, CUdeviceptr address, const Order& order, Fence& fence,
                      bool again) {
  Epochs made;
  Epoch& epoch = made.emplace_back();
  epoch.blocks.push_back({&owner, {}});
  BySize size;
  if (again) {
    size.emplace(0, made.begin());
  }
  const std::lock_guard lock(mutex_);
  drop_empty_lanes();
  Lane& lane = lanes_[order];
  Block& block = epoch.blocks.front();
  if (!owner.device.server->retire(owner, address, block.retired)) {
    return false;
  }
  // From here on nothing fails.
  epoch.lane = &lane;
  epoch.bytes = block.retired.block.bytes;
  epoch.fence = std::move(fence);
  fence = {};
  if (again) {
    auto node = size.extract(size.begin());
    node.key() = epoch.bytes;
    epoch.by_size = lane.by_size.insert(std::move(node));
  }
  put(made, Place::kLast);
  ++epochs_;
  any_.store(true, std::memory_order_release);
  return true;
}

CUdeviceptr FreedBlocks::take_back(Context& context, const Order& order, std::uint64_t bytes,
                                   Epochs& done) {
  const std::lock_guard lock(mutex_);
  const auto found_lane = lanes_.find(order);
  if (found_lane == lanes_.end()) {
    return 0;
  }
  Lane& lane = found_lane->second;
  const auto found = lane.by_size.lower_bound(bytes);
  if (found == lane.by_size.end()) {
    return 0;
  }
  const Epochs::iterator epoch = found->second;
  const CUdeviceptr address = context.arena.revive(epoch->blocks.front().retired.block, bytes);
  if (address != 0) {
    forget_size(*epoch);
    epoch->blocks.clear();
    if (!epoch->in_hand) {
      done.splice(done.end(), take(lane, epoch));
    }
  }
  return address;
}

void FreedBlocks::forget_size(Epoch& epoch) noexcept {
  if (epoch.by_size) {
    epoch.lane->by_size.erase(*epoch.by_size);
    epoch.by_size.reset();
  }
}

// Its lane goes on under a name that no stream has.
void FreedBlocks::forget_stream(const StreamId& stream) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto each = lanes_.begin(); each != lanes_.end();) {
    const auto next = std::next(each);
    if (each->first.context != nullptr && each->first.stream == stream) {
      for (const auto& [bytes, epoch] : each->second.by_size) {
        epoch->by_size.reset();
      }
      each->second.by_size.clear();
      auto node = lanes_.extract(each);
      node.key().stream = {0, ++numbers_};
      lanes_.insert(std::move(node));
    }
    each = next;
  }
  drop_empty_lanes();
}

// Precondition, as of the next three: the lock is held.
void FreedBlocks::drop_empty_lanes() noexcept {
  if (lanes_.size() > kMostEmptyLanes + static_cast<std::size_t>(closed_)) {
    std::erase_if(lanes_, [](const Lanes::value_type& each) {
      return each.first.context != nullptr && each.second.closed.empty() &&
             each.second.in_hand == 0;
    });
  }
}

FreedBlocks::Epochs FreedBlocks::take(Lane& lane, Epochs::iterator which) noexcept {
  Epochs one;
  one.splice(one.begin(), lane.closed, which);
  one.front().in_hand = true;
  ++lane.in_hand;
  if (lane.closed.empty()) {
    lane.turn.splice(lane.turn.begin(), turns_, std::find(turns_.begin(), turns_.end(), &lane));
  }
  count_closed(-1);
  return one;
}

// Its lane's turn comes last now.
void FreedBlocks::put(Epochs& epoch, Place place) noexcept {
  Lane& lane = *epoch.front().lane;
  if (lane.closed.empty()) {
    turns_.splice(turns_.end(), lane.turn);
  } else if (place == Place::kFirst) {
    turns_.splice(turns_.end(), turns_, std::find(turns_.begin(), turns_.end(), &lane));
  }
  lane.closed.splice(place == Place::kFirst ? lane.closed.begin() : lane.closed.end(), epoch);
  count_closed(1);
}

void FreedBlocks::count_closed(std::ptrdiff_t change) noexcept {
  closed_ += change;
  any_closed_.store(closed_ > 0, std::memory_order_release);
}

FreedBlocks::Epochs FreedBlocks::take_open() noexcept {
  const std::lock_guard lock(mutex_);
  full_.store(false, std::memory_order_release);
  Epochs open;
  if (!open_.empty() && !open_.front().blocks.empty()) {
    open.splice(open.begin(), open_);
    open.front().in_hand = true;
    ++open.front().lane->in_hand;
  }
  return open;
}

FreedBlocks::Epochs FreedBlocks::take_closed() noexcept {
  const std::lock_guard lock(mutex_);
  return turns_.empty() ? Epochs{} : take(*turns_.front(), turns_.front()->closed.begin());
}

std::size_t FreedBlocks::lanes() noexcept {
  const std::lock_guard lock(mutex_);
  return turns_.size();
}

bool FreedBlocks::any_in_hand() noexcept {
  const std::lock_guard lock(mutex_);
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const Lanes::value_type& each) { return each.second.in_hand > 0; });
}

FreedBlocks::Epochs FreedBlocks::take_covered(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  for (Lane* const lane : turns_) {
    for (auto each = lane->closed.begin(); each != lane->closed.end(); ++each) {
      if (each->covered == number) {
        return take(*lane, each);
      }
    }
  }
  return {};
}

std::uint64_t FreedBlocks::cover(std::vector<Context*>& others) {
  const std::lock_guard lock(mutex_);
  Lane& of_device = lanes_.begin()->second;
  for (const Epochs* const epochs : {&of_device.closed, &open_}) {
    for (const Epoch& epoch : *epochs) {
      others.insert(others.end(), epoch.others.begin(), epoch.others.end());
    }
  }
  for (const auto& [order, lane] : lanes_) {
    if (order.context != nullptr && !lane.closed.empty()) {
      others.push_back(order.context);
    }
  }
  if (!open_.empty() && !open_.front().blocks.empty()) {
    put(open_, Place::kLast);
  }
  const std::uint64_t number = ++numbers_;
  for (auto& [order, lane] : lanes_) {
    for (Epoch& closed : lane.closed) {
      closed.covered = number;
    }
  }
  return number;
}

void FreedBlocks::put_back(Epochs& epoch, Place place) noexcept {
  const std::lock_guard lock(mutex_);
  epoch.front().in_hand = false;
  --epoch.front().lane->in_hand;
  put(epoch, place);
}

void FreedBlocks::reclaim(Epochs& epoch) noexcept {
  {
    const std::lock_guard lock(mutex_);  // from here on no stream takes it back
    forget_size(epoch.front());
  }
  for (const Block& block : epoch.front().blocks) {
    block.context->device.server->reclaim(*block.context, block.retired);
  }
  const std::lock_guard lock(mutex_);
  --epoch.front().lane->in_hand;
  epoch.clear();
  ++reclaimed_;
  any_.store(--epochs_ > 0, std::memory_order_release);
}

bool FreedBlocks::has_block_of(const Context& context) noexcept {
  const std::lock_guard lock(mutex_);
  const auto is_its = [&](const Epoch& epoch) {
    return std::any_of(epoch.blocks.begin(), epoch.blocks.end(),
                       [&](const Block& block) { return block.context == &context; });
  };
  return std::any_of(open_.begin(), open_.end(), is_its) ||
         std::any_of(lanes_.begin(), lanes_.end(), [&](const Lanes::value_type& each) {
           const Epochs& closed = each.second.closed;
           return each.second.in_hand > 0 || std::any_of(closed.begin(), closed.end(), is_its);
         });
}

}  // namespace cubfc
