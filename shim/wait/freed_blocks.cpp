#include "shim/wait/freed_blocks.h"

#include <algorithm>
#include <new>
#include <utility>

#include "arena/epoch.h"
#include "shim/device/contexts.h"

namespace cubfc {

using freed::Block;
using freed::BySize;
using freed::Gathered;
using freed::Lane;

namespace {

// An empty lane is kept for the next free of its stream, as long as there are no more than so many.
constexpr std::size_t kMostEmptyLanes = 8;

}  // namespace

bool freed::Epoch::has_any_of(const Context* context) const {
  const auto is_meant = [&](const auto& each) {
    return context == nullptr || each.context == context;
  };
  return std::any_of(blocks.begin(), blocks.end(), is_meant) ||
         std::any_of(gathered.begin(), gathered.end(), is_meant);
}

FreedBlocks::FreedBlocks(Device& device, const Contexts& contexts)
    : device_(device), contexts_(contexts) {
  lanes_.try_emplace(Order{});
}

// Calls `what` with each context of the device, ended ones included.
template <typename Do>
void FreedBlocks::for_each_context(Do what) const {
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    if (&context->device == &device_) {
      what(*context);
    }
  }
}

// Throws std::bad_alloc. Precondition: the lock is held.
void FreedBlocks::make_open() {
  if (open_.empty()) {
    open_.emplace_back();
    open_.front().lane = &lanes_.begin()->second;
  }
}

arena::Arena::Gathered FreedBlocks::gather(Context& owner, CUdeviceptr address) noexcept {
  using enum arena::Arena::Gathered;
  const auto result = owner.arena.gather(address, device_.preallocation.bytes());
  if (result != kNot && !any_open_.load(std::memory_order_relaxed)) [[unlikely]] {
    any_open_.store(true, std::memory_order_release);  // after the block is there: see close_open()
  }
  if (result == kFull) [[unlikely]] {
    full_.store(true, std::memory_order_release);
  }
  return result;
}

bool FreedBlocks::add(Context& owner, CUdeviceptr address, Context* other) {
  if (other == nullptr && !device_.server->has_blocks_beside_arenas()) {
    return gather(owner, address) != arena::Arena::Gathered::kNot;
  }
  const std::lock_guard lock(mutex_);
  // What needs memory comes before any change.
  make_open();
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
  any_open_.store(true, std::memory_order_release);
  open.bytes += block.retired.block.bytes;
  if (arena::is_epoch_full(open.blocks.size(), open.bytes, owner.headroom())) {
    full_.store(true, std::memory_order_release);
  }
  return true;
}

bool FreedBlocks::add(Context& owner, CUdeviceptr address, const Order& order, Fence& fence,
                      Context* other, bool again) {
  Epochs made;
  Epoch& epoch = made.emplace_back();
  epoch.blocks.push_back({&owner, {}});
  if (other != nullptr) {
    epoch.others.push_back(other);
  }
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
  epoch.number = ++numbers_;
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
  return true;
}

CUdeviceptr FreedBlocks::take_back(Context& context, const Order& order, const Wanted& wanted,
                                   Epochs& done) {
  const std::lock_guard lock(mutex_);
  const auto found_lane = lanes_.find(order);
  if (found_lane == lanes_.end()) {
    return 0;
  }
  Lane& lane = found_lane->second;
  auto found = lane.by_size.lower_bound(wanted.bytes);
  while (found != lane.by_size.end() && found->second->in_hand) {
    ++found;
  }
  if (found == lane.by_size.end()) {
    return 0;
  }
  const Epochs::iterator epoch = found->second;
  const CUdeviceptr address =
      context.arena.revive(epoch->blocks.front().retired.block, wanted.bytes, wanted.caller);
  if (address != 0) {
    forget_size(*epoch);
    epoch->blocks.clear();
    done.splice(done.end(), take(lane, epoch));
  }
  return address;
}

void FreedBlocks::forget_size(Epoch& epoch) noexcept {
  if (epoch.by_size) {
    epoch.lane->by_size.erase(*epoch.by_size);
    epoch.by_size.reset();
  }
}

// Gives the stream's lanes a key that no stream has, so that their epochs go on waiting.
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

// Precondition, here and in the next four functions: the lock is held.
void FreedBlocks::drop_empty_lanes() noexcept {
  if (lanes_.size() > kMostEmptyLanes + static_cast<std::size_t>(closed_.load())) {
    std::erase_if(lanes_, [](const Lanes::value_type& each) {
      return each.first.context != nullptr && each.second.closed.empty() &&
             each.second.in_hand == 0;
    });
  }
}

FreedBlocks::Epochs FreedBlocks::take(Lane& lane, Epochs::iterator which) noexcept {
  Epochs one;
  one.splice(one.begin(), lane.closed, which);
  take_in_hand(one.front());
  if (lane.closed.empty()) {
    lane.turn.splice(lane.turn.begin(), turns_, std::find(turns_.begin(), turns_.end(), &lane));
  }
  --closed_;
  return one;
}

void FreedBlocks::take_in_hand(Epoch& epoch) noexcept {
  epoch.in_hand = true;
  ++epoch.lane->in_hand;
  in_hand_.splice(in_hand_.end(), epoch.hand);
}

void FreedBlocks::let_go(Epoch& epoch) noexcept {
  epoch.in_hand = false;
  --epoch.lane->in_hand;
  epoch.hand.splice(epoch.hand.begin(), in_hand_,
                    std::find(in_hand_.begin(), in_hand_.end(), &epoch));
}

// With kFirst, or if the lane was empty, the lane's turn comes last now.
void FreedBlocks::put(Epochs& epoch, Place place) noexcept {
  Lane& lane = *epoch.front().lane;
  if (lane.closed.empty()) {
    turns_.splice(turns_.end(), lane.turn);
  } else if (place == Place::kFirst) {
    turns_.splice(turns_.end(), turns_, std::find(turns_.begin(), turns_.end(), &lane));
  }
  lane.closed.splice(place == Place::kFirst ? lane.closed.begin() : lane.closed.end(), epoch);
  ++closed_;
}

FreedBlocks::Epochs FreedBlocks::take_open() noexcept try {
  const std::lock_guard lock(mutex_);
  full_.store(false, std::memory_order_release);
  Epochs open = close_open();
  if (!open.empty()) {
    take_in_hand(open.front());
  }
  return open;
} catch (const std::bad_alloc&) {
  return {};  // the epoch stays open
}

// Closes the open epoch, with what arenas have gathered, and returns it; empty when nothing was
// freed. Throws std::bad_alloc and has changed nothing then. Precondition: the lock is held.
FreedBlocks::Epochs FreedBlocks::close_open() {
  std::size_t contexts = 0;
  for_each_context([&](const Context&) { ++contexts; });
  make_open();
  Epoch& open = open_.front();
  open.gathered.reserve(contexts);
  // The epoch counts as closed from here on, so that any() never misses it. any_open_ is cleared
  // before the arenas are asked: a thread that gathers a block after that sets it again.
  ++epochs_;
  any_open_.store(false, std::memory_order_seq_cst);
  for_each_context([&](Context& context) {
    if (open.gathered.size() == contexts) {  // a context has come since they were counted
      any_open_.store(true, std::memory_order_release);
    } else if (const arena::GatheredBlocks blocks = context.arena.take_gathered();
               blocks.count > 0) {
      open.gathered.push_back({&context, blocks});
    }
  });
  Epochs closed;
  if (!open.empty()) {
    open.number = std::exchange(open_number_, ++numbers_);
    std::uint64_t bytes = open.bytes;
    std::size_t blocks = open.blocks.size();
    for (const Gathered& each : open.gathered) {
      bytes += each.blocks.bytes;
      blocks += each.blocks.count;
    }
    device_.use.epoch_closed(bytes, blocks);
    open.plain_bytes = bytes;
    plain_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    closed.splice(closed.begin(), open_);
  } else {
    --epochs_;
  }
  return closed;
}

FreedBlocks::Epochs FreedBlocks::take_closed() noexcept {
  const std::lock_guard lock(mutex_);
  return turns_.empty() ? Epochs{} : take(*turns_.front(), turns_.front()->closed.begin());
}

std::size_t FreedBlocks::lanes() noexcept {
  const std::lock_guard lock(mutex_);
  return turns_.size();
}

FreedBlocks::Prospect FreedBlocks::prospect() noexcept {
  const std::lock_guard lock(mutex_);
  bool any_pending = false;
  for (const Lane* lane : turns_) {
    const Epoch& first = lane->closed.front();  // those behind it are asked about later
    if (!first.fence.complete || first.stuck) {
      continue;
    }
    any_pending = true;
    if (lane == &lanes_.begin()->second || first.by_size) {
      return Prospect::kPending;
    }
  }
  if (any_pending) {
    return Prospect::kInStreams;
  }
  return in_hand_.empty() ? Prospect::kStuck : Prospect::kInHand;
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

std::uint64_t FreedBlocks::cover(const Device& device) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (Epochs closed = close_open(); !closed.empty()) {
      put(closed, Place::kLast);
    }
  } catch (const std::bad_alloc&) {  // the open epoch is not covered
  }
  const std::uint64_t number = ++numbers_;
  for (auto& [order, lane] : lanes_) {
    if (order.context != nullptr && !order.context->may_use(device)) {
      continue;
    }
    for (Epoch& closed : lane.closed) {
      closed.covered = closed.others.empty() ? number : 0;
    }
  }
  return number;
}

void FreedBlocks::put_back(Epochs& epoch, Place place) noexcept {
  const std::lock_guard lock(mutex_);
  let_go(epoch.front());
  put(epoch, place);
}

void FreedBlocks::reclaim(Epochs& epoch) noexcept {
  for (const Block& block : epoch.front().blocks) {
    block.context->device.server->reclaim(*block.context, block.retired);
  }
  for (const Gathered& gathered : epoch.front().gathered) {
    gathered.context->arena.reclaim(gathered.blocks);
  }
  const std::lock_guard lock(mutex_);
  forget_size(epoch.front());
  let_go(epoch.front());
  plain_bytes_.fetch_sub(epoch.front().plain_bytes, std::memory_order_relaxed);
  reclaimed_ += epoch.front().empty() ? 0 : 1;  // empty: its block was taken back
  epoch.clear();
  --epochs_;
}

std::uint64_t FreedBlocks::newest() noexcept {
  const std::lock_guard lock(mutex_);
  return numbers_;
}

bool FreedBlocks::has_until(std::uint64_t newest, const Context* context) noexcept {
  const std::lock_guard lock(mutex_);
  const auto is_meant = [&](const Epoch& epoch) {
    return epoch.number <= newest && epoch.has_any_of(context);
  };
  bool any_open = false;
  if (open_number_ <= newest) {
    any_open = !open_.empty() && open_.front().has_any_of(context);
    for_each_context([&](const Context& each) {
      any_open =
          any_open || ((context == nullptr || context == &each) && each.arena.has_gathered());
    });
  }
  return any_open ||
         std::any_of(in_hand_.begin(), in_hand_.end(),
                     [&](const Epoch* epoch) { return is_meant(*epoch); }) ||
         std::any_of(turns_.begin(), turns_.end(), [&](const Lane* lane) {
           return std::any_of(lane->closed.begin(), lane->closed.end(), is_meant);
         });
}

}  // namespace cubfc
