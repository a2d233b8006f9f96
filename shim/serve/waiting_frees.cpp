#include "shim/serve/waiting_frees.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "arena/epoch.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/driver/captures.h"

namespace cubfc {
namespace {

// More do not wait: a program may free faster than its GPU works for as long as it likes.
constexpr std::size_t kMostWaiting = 65'536;

// What another thread has in hand comes back when the driver has answered it.
constexpr std::chrono::seconds kPatience{2};

}  // namespace

WaitingFrees::WaitingFrees(const DriverFunctions& driver, Contexts& contexts, Captures& captures)
    : contexts_(contexts), captures_(captures), fences_(driver, contexts) {
  contexts.add_listener(*this);
}

bool WaitingFrees::add(Context& context, CUdeviceptr address, const StreamId* order) {
  const std::lock_guard lock(mutex_);
  // What needs memory comes before any change.
  if (open_.empty()) {
    open_.emplace_back();
  }
  Epoch& open = open_.front();
  Block& block = open.blocks.emplace_back();
  Ordered* ordered = nullptr;
  Ordered::iterator place{};
  try {
    ordered = order == nullptr ? nullptr : &ordered_[{&context, *order}];
    place = ordered == nullptr ? place : ordered->emplace(0, &block);
  } catch (const std::bad_alloc&) {
    open.blocks.pop_back();
    throw;
  }
  block.context = &context;
  if (!context.device.server->retire(context, address, block.retired)) {
    if (ordered != nullptr) {
      ordered->erase(place);
    }
    open.blocks.pop_back();
    return false;
  }
  if (ordered != nullptr) {
    auto node = ordered->extract(place);
    node.key() = block.retired.block.bytes;
    block.ordered = ordered;
    block.place = ordered->insert(std::move(node));
  }
  open.bytes += block.retired.block.bytes;
  ++waiting_;
  any_.store(true, std::memory_order_release);
  due_.store(waiting_ > kMostWaiting ||
                 arena::is_epoch_full(open.blocks.size(), open.bytes, context.headroom()),
             std::memory_order_release);
  return true;
}

void WaitingFrees::reclaim(const Block& block) noexcept {
  if (!block.taken) {
    block.context->device.server->reclaim(*block.context, block.retired);
  }
}

CUdeviceptr WaitingFrees::take_back(Context& context, const StreamId& order, std::uint64_t bytes) {
  if (!any()) {
    return 0;
  }
  const std::lock_guard lock(mutex_);
  const auto of_stream = ordered_.find({&context, order});
  if (of_stream == ordered_.end()) {
    return 0;
  }
  const auto found = of_stream->second.lower_bound(bytes);
  if (found == of_stream->second.end()) {
    return 0;
  }
  Block& block = *found->second;
  const CUdeviceptr address = context.arena.revive(block.retired.block, bytes);
  if (address != 0) {
    forget_order(block);
    block.taken = true;
  }
  return address;
}

void WaitingFrees::forget_order(Block& block) noexcept {
  if (block.ordered != nullptr) {
    block.ordered->erase(block.place);
    block.ordered = nullptr;
  }
}

void WaitingFrees::stream_will_end(CUstream stream) {
  const StreamId gone = stream_id(stream, false);
  if (gone.is_default() || !any()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  for (auto each = ordered_.begin(); each != ordered_.end();) {
    if (each->first.stream == gone) {
      for (const auto& [bytes, block] : each->second) {
        block->ordered = nullptr;
      }
      each = ordered_.erase(each);
    } else {
      ++each;
    }
  }
}

// Another thread may have seen to it, or have freed more since.
void WaitingFrees::close_when_due(const Context& context) noexcept {
  if (!due_.load(std::memory_order_acquire)) {
    return;
  }
  bool full = false;
  bool too_many = false;
  {
    const arena::Headroom room = context.headroom();
    const std::lock_guard lock(mutex_);
    full = !open_.empty() &&
           arena::is_epoch_full(open_.front().blocks.size(), open_.front().bytes, room);
    too_many = waiting_ > kMostWaiting;
  }
  if (full) {
    close();
  }
  if (too_many) {
    wait_for_oldest();
  }
}

// While a stream captures, the open epoch stays open.
void WaitingFrees::close() {
  const WaitPermit permit(captures_);
  if (!permit.given()) {
    return;
  }
  if (Epochs closing = take_open(); !closing.empty()) {
    record_fence(closing.front());
    put_back(closing, Place::kLast);
  }
}

// Not now when a context may be ending. Precondition: this thread holds a WaitPermit that is given.
void WaitingFrees::record_fence(Epoch& epoch) noexcept {
  if (epoch.blocks.empty()) {
    epoch.fence.complete = true;
  } else if (fences_.can_record()) {
    fences_.record(epoch.fence);
  } else {
    epoch.fence.complete = contexts_.synchronize(*epoch.blocks.front().context) == CUDA_SUCCESS;
  }
}

// As a free under CUBFC_FREE=sync: another context's error is not the owner's.
bool WaitingFrees::synchronize_owners(const Epoch& epoch) {
  const Context* done = nullptr;
  for (const Block& block : epoch.blocks) {
    if (block.context != done && contexts_.synchronize(*block.context) != CUDA_SUCCESS) {
      return false;
    }
    done = block.context;
  }
  return true;
}

void WaitingFrees::collect() noexcept {
  if (!any_closed_.load(std::memory_order_acquire)) {
    return;
  }
  const WaitPermit permit(captures_);
  if (!permit.given()) {
    return;
  }
  for (Epochs one = take_oldest(); !one.empty(); one = take_oldest()) {
    Fence& fence = one.front().fence;
    if (!fence.complete) {
      fences_.give_back(fence);
      record_fence(one.front());
    }
    if (!fence.complete || !fences_.is_passed(fence)) {
      put_back(one, Place::kFirst);
      return;
    }
    reclaim(one);
  }
}

void WaitingFrees::close_and_collect() noexcept {
  if (fences_.can_record()) {
    close();  // without it, that would wait
  }
  collect();
}

bool WaitingFrees::wait_for_oldest() noexcept {
  const WaitPermit permit(captures_);
  if (!permit.given()) {
    return false;
  }
  Epochs one = take_oldest();
  if (one.empty()) {
    one = take_open();
  }
  if (one.empty()) {
    std::unique_lock lock(mutex_);
    const auto is_back = [&] { return in_hand_ == 0 || !closed_.empty(); };
    return in_hand_ > 0 && put_back_.wait_for(lock, kPatience, is_back);
  }
  const Epoch& epoch = one.front();
  const bool fence_passed = epoch.fence.complete && fences_.wait_for(epoch.fence);
  if (!fence_passed && !synchronize_owners(epoch)) {
    put_back(one, Place::kFirst);
    return false;
  }
  reclaim(one);
  return true;
}

CUresult WaitingFrees::wait_for_all(const Context& owner) {
  // Taken before the wait: what is freed while it goes on may be used by later work.
  Epochs all;
  if (any()) {
    const std::lock_guard lock(mutex_);
    all.splice(all.end(), closed_);
    all.splice(all.end(), open_);
    in_hand_ += static_cast<int>(all.size());
    any_closed_.store(false, std::memory_order_release);
  }
  const CUresult result = contexts_.synchronize(owner);
  if (result == CUDA_SUCCESS) {
    reclaim(all);
  } else {
    put_back(all, Place::kFirst);
  }
  return result;
}

// The open epoch, if something is in it: in hand until it is put back or reclaimed.
WaitingFrees::Epochs WaitingFrees::take_open() noexcept {
  const std::lock_guard lock(mutex_);
  Epochs open;
  if (!open_.empty() && !open_.front().blocks.empty()) {
    open.splice(open.begin(), open_);
    ++in_hand_;
  }
  return open;
}

// The epoch that has been closed for longest, if there is one; in hand likewise.
WaitingFrees::Epochs WaitingFrees::take_oldest() noexcept {
  const std::lock_guard lock(mutex_);
  Epochs oldest;
  if (!closed_.empty()) {
    oldest.splice(oldest.begin(), closed_, closed_.begin());
    ++in_hand_;
    any_closed_.store(!closed_.empty(), std::memory_order_release);
  }
  return oldest;
}

void WaitingFrees::put_back(Epochs& epochs, Place place) noexcept {
  if (epochs.empty()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  in_hand_ -= static_cast<int>(epochs.size());
  closed_.splice(place == Place::kFirst ? closed_.begin() : closed_.end(), epochs);
  any_closed_.store(true, std::memory_order_release);
  put_back_.notify_all();
}

// Their work is done.
void WaitingFrees::reclaim(Epochs& epochs) noexcept {
  if (epochs.empty()) {
    return;
  }
  std::size_t blocks = 0;
  {
    const std::lock_guard lock(mutex_);  // from here on no stream takes one of them back
    for (Epoch& epoch : epochs) {
      std::for_each(epoch.blocks.begin(), epoch.blocks.end(), forget_order);
    }
  }
  for (Epoch& epoch : epochs) {
    for (const Block& block : epoch.blocks) {
      reclaim(block);
    }
    blocks += epoch.blocks.size();
    fences_.give_back(epoch.fence);
  }
  const std::lock_guard lock(mutex_);
  in_hand_ -= static_cast<int>(epochs.size());
  waiting_ -= blocks;
  any_.store(waiting_ > 0, std::memory_order_release);
  epochs.clear();
  put_back_.notify_all();
}

void WaitingFrees::context_may_end() noexcept {
  const bool waits = contexts_.several_alive() || contexts_.devices().any_beside_arenas();
  while (waits && any() && wait_for_oldest()) {
  }
}

}  // namespace cubfc
