#include "shim/serve/freed_blocks.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "arena/epoch.h"
#include "shim/device/device.h"

namespace cubfc {
namespace {

// What another thread has in hand comes back when the driver has answered it.
constexpr std::chrono::seconds kPatience{2};
// A lane that is empty stays for the next free of its stream, while there are no more than so many.
constexpr std::size_t kMostEmptyLanes = 64;

}  // namespace

bool FreedBlocks::add(Context& owner, CUdeviceptr address, const Order& order, Context* other,
                      bool again) {
  const std::lock_guard lock(mutex_);
  // What needs memory comes before any change.
  Lane& lane = order.of_stream() ? lanes_[order] : lanes_.begin()->second;
  if (lane.open.empty()) {
    lane.open.emplace_back(order);
  }
  Epoch& open = lane.open.front();
  if (other != nullptr &&
      std::find(open.others.begin(), open.others.end(), other) == open.others.end()) {
    open.others.push_back(other);
  }
  Block& block = open.blocks.emplace_back();
  try {
    if (again) {
      block.place = lane.by_size.emplace(0, &block);
      block.by_size = &lane.by_size;
    }
  } catch (const std::bad_alloc&) {
    open.blocks.pop_back();
    throw;
  }
  block.context = &owner;
  if (!owner.device.server->retire(owner, address, block.retired)) {
    forget_size(block);
    open.blocks.pop_back();
    return false;
  }
  const std::uint64_t bytes = block.retired.block.bytes;
  if (again) {
    auto node = lane.by_size.extract(block.place);
    node.key() = bytes;
    block.place = lane.by_size.insert(std::move(node));
  }
  open.bytes += bytes;
  ++waiting_;
  any_.store(true, std::memory_order_release);
  if (arena::is_epoch_full(open.blocks.size(), open.bytes, owner.headroom())) {
    any_full_.store(true, std::memory_order_release);
  }
  return true;
}

CUdeviceptr FreedBlocks::take_back(Context& context, const Order& order, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto lane = lanes_.find(order);
  if (lane == lanes_.end()) {
    return 0;
  }
  const auto found = lane->second.by_size.lower_bound(bytes);
  if (found == lane->second.by_size.end()) {
    return 0;
  }
  Block& block = *found->second;
  const CUdeviceptr address = context.arena.revive(block.retired.block, bytes);
  if (address != 0) {
    forget_size(block);
    block.taken = true;
  }
  return address;
}

void FreedBlocks::forget_size(Block& block) noexcept {
  if (block.by_size != nullptr) {
    block.by_size->erase(block.place);
    block.by_size = nullptr;
  }
}

// What is left of it waits for the device: what has no fence yet gets one that way. An epoch that
// is getting its fence from the stream right now is waited for.
void FreedBlocks::forget_stream(const StreamId& stream) {
  const auto is_gone = [&](const Lanes::value_type& lane) {
    return lane.first.of_stream() && lane.first.stream == stream;
  };
  std::unique_lock lock(mutex_);
  put_back_.wait_for(lock, kPatience, [&] {
    return std::none_of(lanes_.begin(), lanes_.end(), [&](const Lanes::value_type& lane) {
      return is_gone(lane) && lane.second.closing > 0;
    });
  });
  for (auto each = lanes_.begin(); each != lanes_.end();) {
    if (!is_gone(*each)) {
      ++each;
      continue;
    }
    Lane& lane = each->second;
    for (const auto& [bytes, block] : lane.by_size) {
      block->by_size = nullptr;
    }
    change_closed(-static_cast<std::ptrdiff_t>(lane.closed.size()));
    append_to_device(lane.closed);
    if (!lane.open.empty() && !lane.open.front().blocks.empty()) {
      append_to_device(lane.open);
    }
    each = lanes_.erase(each);
  }
}

// The first that the walk may meet. Precondition, as of the next three: the lock is held.
FreedBlocks::Lanes::iterator FreedBlocks::find(const Walk& walk) {
  return !walk.at    ? lanes_.begin()
         : walk.past ? lanes_.upper_bound(*walk.at)
                     : lanes_.lower_bound(*walk.at);
}

FreedBlocks::Epochs FreedBlocks::take_open(Lane& lane) noexcept {
  Epochs open;
  open.splice(open.begin(), lane.open);
  ++lane.closing;
  ++in_hand_;
  return open;
}

FreedBlocks::Epochs FreedBlocks::take_closed(Lane& lane, Epochs::iterator which) noexcept {
  Epochs one;
  one.splice(one.begin(), lane.closed, which);
  change_closed(-1);
  ++in_hand_;
  return one;
}

void FreedBlocks::change_closed(std::ptrdiff_t by) noexcept {
  closed_ += by;
  any_closed_.store(closed_ > 0, std::memory_order_release);
}

FreedBlocks::Epochs FreedBlocks::take_closed(Walk& walk) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto each = find(walk); each != lanes_.end(); ++each) {
    if (!each->second.closed.empty()) {
      walk = {each->first, false};
      return take_closed(each->second, each->second.closed.begin());
    }
  }
  return {};
}

FreedBlocks::Epochs FreedBlocks::take_oldest() noexcept {
  const std::lock_guard lock(mutex_);
  Lane* oldest = nullptr;
  for (auto& [order, lane] : lanes_) {
    if (!lane.closed.empty() &&
        (oldest == nullptr || lane.closed.front().number < oldest->closed.front().number)) {
      oldest = &lane;
    }
  }
  return oldest == nullptr ? Epochs{} : take_closed(*oldest, oldest->closed.begin());
}

FreedBlocks::Epochs FreedBlocks::take_covered(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto& [order, lane] : lanes_) {
    for (auto each = lane.closed.begin(); each != lane.closed.end(); ++each) {
      if (each->covered == number) {
        return take_closed(lane, each);
      }
    }
  }
  return {};
}

// Whether `visit` answers true for one that nobody has in hand. Precondition: the lock is held.
template <typename Visit>
bool FreedBlocks::any_of_epochs(Visit visit) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const Lanes::value_type& lane) {
    const Epochs& closed = lane.second.closed;
    const Epochs& open = lane.second.open;
    return std::any_of(closed.begin(), closed.end(), visit) ||
           std::any_of(open.begin(), open.end(), visit);
  });
}

// Precondition: the lock is held.
void FreedBlocks::append_others_locked(std::vector<Context*>& others) const {
  any_of_epochs([&](const Epoch& epoch) {
    others.insert(others.end(), epoch.others.begin(), epoch.others.end());
    return false;
  });
}

void FreedBlocks::append_others(std::vector<Context*>& others) {
  const std::lock_guard lock(mutex_);
  append_others_locked(others);
}

std::uint64_t FreedBlocks::cover(std::vector<Context*>& others) {
  const std::lock_guard lock(mutex_);
  append_others_locked(others);
  const std::uint64_t number = ++numbers_;
  for (auto& [order, lane] : lanes_) {
    if (!lane.open.empty() && !lane.open.front().blocks.empty()) {
      lane.open.front().number = ++numbers_;
      lane.closed.splice(lane.closed.end(), lane.open);
      change_closed(1);
    }
    for (Epoch& closed : lane.closed) {
      closed.covered = number;
    }
  }
  return number;
}

void FreedBlocks::put_back(Epochs& epoch, Place place) noexcept {
  if (epoch.empty()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  --in_hand_;
  if (const auto found = lanes_.find(epoch.front().order); found != lanes_.end()) {
    Lane& lane = found->second;
    if (epoch.front().number == 0) {
      epoch.front().number = ++numbers_;
      --lane.closing;
    }
    lane.closed.splice(place == Place::kFirst ? lane.closed.begin() : lane.closed.end(), epoch);
    change_closed(1);
  } else {  // its stream has been forgotten
    append_to_device(epoch);
  }
  put_back_.notify_all();
}

// From now on they wait for all work on the device. Precondition: the lock is held.
void FreedBlocks::append_to_device(Epochs& epochs) noexcept {
  for (Epoch& epoch : epochs) {
    epoch.number = epoch.number == 0 ? ++numbers_ : epoch.number;
    epoch.order = Order{};
  }
  change_closed(static_cast<std::ptrdiff_t>(epochs.size()));
  Epochs& closed = lanes_.begin()->second.closed;
  closed.splice(closed.end(), epochs);
}

void FreedBlocks::reclaim(Epochs& epoch) noexcept {
  std::deque<Block>& blocks = epoch.front().blocks;
  {
    const std::lock_guard lock(mutex_);  // from here on no stream takes one of them back
    std::for_each(blocks.begin(), blocks.end(), forget_size);
  }
  for (const Block& block : blocks) {
    if (!block.taken) {
      block.context->device.server->reclaim(*block.context, block.retired);
    }
  }
  const std::lock_guard lock(mutex_);
  --in_hand_;
  waiting_ -= blocks.size();
  any_.store(waiting_ > 0, std::memory_order_release);
  epoch.clear();
  if (lanes_.size() > kMostEmptyLanes) {
    std::erase_if(lanes_, [](const auto& each) {
      const auto& [order, lane] = each;
      return order.of_stream() && lane.closed.empty() && lane.by_size.empty() &&
             lane.closing == 0 && (lane.open.empty() || lane.open.front().blocks.empty());
    });
  }
  put_back_.notify_all();
}

bool FreedBlocks::wait_for_others() noexcept {
  std::unique_lock lock(mutex_);
  const auto is_back = [&] { return in_hand_ == 0 || closed_ > 0; };
  return in_hand_ > 0 && put_back_.wait_for(lock, kPatience, is_back);
}

std::size_t FreedBlocks::epochs() noexcept {
  const std::lock_guard lock(mutex_);
  std::size_t epochs = static_cast<std::size_t>(in_hand_);
  any_of_epochs([&](const Epoch& epoch) {
    epochs += epoch.blocks.empty() ? 0 : 1;
    return false;
  });
  return epochs;
}

bool FreedBlocks::has_block_of(const Context& context) noexcept {
  const std::lock_guard lock(mutex_);
  return in_hand_ > 0 || any_of_epochs([&](const Epoch& epoch) {
           return std::any_of(epoch.blocks.begin(), epoch.blocks.end(),
                              [&](const Block& block) { return block.context == &context; });
         });
}

}  // namespace cubfc
