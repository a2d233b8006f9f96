#include "shim/serve/device_frees.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "arena/epoch.h"
#include "shim/device/contexts.h"
#include "shim/driver/captures.h"

namespace cubfc {
namespace {

// What another thread has in hand comes back when the driver has answered it.
constexpr std::chrono::seconds kPatience{2};

}  // namespace

// Whether its work may use the device's memory only because it was freed there.
bool DeviceFrees::is_stranger(const Context* context) const {
  return context != nullptr && !context->may_use(device_);
}

bool DeviceFrees::add(Context& context, CUdeviceptr address, const How& how) {
  const std::lock_guard lock(mutex_);
  // What needs memory comes before any change.
  if (open_.empty()) {
    open_.emplace_back();
  }
  Epoch& open = open_.front();
  if (is_stranger(how.in) &&
      std::find(open.others.begin(), open.others.end(), how.in) == open.others.end()) {
    open.others.push_back(how.in);
  }
  const StreamId* const order = how.order;
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
  due_.store(arena::is_epoch_full(open.blocks.size(), open.bytes, context.headroom()),
             std::memory_order_release);
  return true;
}

void DeviceFrees::reclaim(const Block& block) noexcept {
  if (!block.taken) {
    block.context->device.server->reclaim(*block.context, block.retired);
  }
}

CUdeviceptr DeviceFrees::take_back(Context& context, const StreamId& order, std::uint64_t bytes) {
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

void DeviceFrees::forget_order(Block& block) noexcept {
  if (block.ordered != nullptr) {
    block.ordered->erase(block.place);
    block.ordered = nullptr;
  }
}

void DeviceFrees::stream_will_end(CUstream stream) {
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
void DeviceFrees::close_when_due(const Context& context) noexcept {
  if (!due_.load(std::memory_order_acquire)) {
    return;
  }
  bool full = false;
  {
    const arena::Headroom headroom = context.headroom();
    const std::lock_guard lock(mutex_);
    full = !open_.empty() &&
           arena::is_epoch_full(open_.front().blocks.size(), open_.front().bytes, headroom);
  }
  if (full) {
    close();
  }
}

// While a stream captures, the open epoch stays open.
void DeviceFrees::close() {
  WaitPermit permit(captures_);
  if (!permit.given()) {
    return;
  }
  if (Epochs closing = take_open(); !closing.empty()) {
    record_fence(closing.front(), permit);
    put_back(closing, Place::kLast);
  }
}

// Not now when a context may be ending. Precondition: the permit is given.
void DeviceFrees::record_fence(Epoch& epoch, WaitPermit& permit) noexcept {
  if (epoch.blocks.empty()) {
    epoch.fence.complete = true;
  } else if (fences_.can_record()) {
    fences_.record(epoch.fence, device_, epoch.others);
  } else {
    epoch.fence.complete = synchronize_owners(epoch, permit);
  }
}

// As a free under CUBFC_FREE=sync. A context whose work has gone wrong for good has no work left.
bool DeviceFrees::synchronize_owners(const Epoch& epoch, WaitPermit& permit) {
  const Context* done = nullptr;
  for (const Block& block : epoch.blocks) {
    if (block.context == done) {
      continue;
    }
    const CUresult result = permit.given()
                                ? contexts_.synchronize(*block.context, permit, epoch.others)
                                : CUDA_ERROR_NOT_READY;
    if (result != CUDA_SUCCESS && !stays(result)) {
      return false;
    }
    done = block.context;
  }
  return true;
}

void DeviceFrees::collect() noexcept {
  if (!any_closed_.load(std::memory_order_acquire)) {
    return;
  }
  WaitPermit permit(captures_);
  if (!permit.given()) {
    return;
  }
  for (Epochs one = take_oldest(); !one.empty(); one = take_oldest()) {
    Fence& fence = one.front().fence;
    if (!fence.complete) {
      fences_.give_back(fence);
      record_fence(one.front(), permit);
    }
    if (!fence.complete || !fences_.is_passed(fence)) {
      put_back(one, Place::kFirst);
      return;
    }
    reclaim(one);
  }
}

void DeviceFrees::close_and_collect() noexcept {
  if (fences_.can_record()) {
    close();  // without it, that would wait
  }
  collect();
}

bool DeviceFrees::wait_for_oldest() noexcept {
  WaitPermit permit(captures_);
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
  const bool fence_passed = epoch.fence.complete && fences_.wait_for(epoch.fence, permit);
  if (!fence_passed && !synchronize_owners(epoch, permit)) {
    put_back(one, Place::kFirst);
    return false;
  }
  reclaim(one);
  return true;
}

std::size_t DeviceFrees::epochs() noexcept {
  const std::lock_guard lock(mutex_);
  return open_.size() + closed_.size() + static_cast<std::size_t>(in_hand_);
}

bool DeviceFrees::has_block_of(const Context& context) noexcept {
  const std::lock_guard lock(mutex_);
  if (in_hand_ > 0) {
    return true;  // perhaps
  }
  for (const Epochs* const epochs : {&closed_, &open_}) {
    for (const Epoch& epoch : *epochs) {
      if (std::any_of(epoch.blocks.begin(), epoch.blocks.end(),
                      [&](const Block& block) { return block.context == &context; })) {
        return true;
      }
    }
  }
  return false;
}

CUresult DeviceFrees::wait_for_all(const Context& owner, Context* in, WaitPermit& permit) {
  std::vector<Context*> others;
  if (is_stranger(in)) {
    others.push_back(in);
  }
  // Taken before the wait: what is freed while it goes on may be used by later work.
  Epochs all;
  if (any()) {
    const std::lock_guard lock(mutex_);
    for (const Epochs* const epochs : {&closed_, &open_}) {
      for (const Epoch& epoch : *epochs) {
        others.insert(others.end(), epoch.others.begin(), epoch.others.end());
      }
    }
    all.splice(all.end(), closed_);
    all.splice(all.end(), open_);
    in_hand_ += static_cast<int>(all.size());
    any_closed_.store(false, std::memory_order_release);
  }
  const CUresult result = contexts_.synchronize(owner, permit, others);
  if (result == CUDA_SUCCESS) {
    reclaim(all);
  } else {
    put_back(all, Place::kFirst);
  }
  return result;
}

// The open epoch, if something is in it: in hand until it is put back or reclaimed.
DeviceFrees::Epochs DeviceFrees::take_open() noexcept {
  const std::lock_guard lock(mutex_);
  Epochs open;
  if (!open_.empty() && !open_.front().blocks.empty()) {
    open.splice(open.begin(), open_);
    ++in_hand_;
  }
  return open;
}

// The epoch that has been closed for longest, if there is one; in hand likewise.
DeviceFrees::Epochs DeviceFrees::take_oldest() noexcept {
  const std::lock_guard lock(mutex_);
  Epochs oldest;
  if (!closed_.empty()) {
    oldest.splice(oldest.begin(), closed_, closed_.begin());
    ++in_hand_;
    any_closed_.store(!closed_.empty(), std::memory_order_release);
  }
  return oldest;
}

void DeviceFrees::put_back(Epochs& epochs, Place place) noexcept {
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
void DeviceFrees::reclaim(Epochs& epochs) noexcept {
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

}  // namespace cubfc
