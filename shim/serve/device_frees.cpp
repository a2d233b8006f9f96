#include "shim/serve/device_frees.h"

#include <optional>

#include "arena/epoch.h"
#include "shim/device/contexts.h"
#include "shim/driver/captures.h"

namespace cubfc {

// Whether its work may use the device's memory only because it was freed there.
bool DeviceFrees::is_stranger(const Context* context) const {
  return context != nullptr && !context->may_use(device_);
}

bool DeviceFrees::add(Context& context, CUdeviceptr address, const How& how) {
  return freed_.add(context, address, how.order == nullptr ? Order{} : *how.order,
                    is_stranger(how.in) ? how.in : nullptr, how.again);
}

// While a stream captures, they stay open. Those of each order once: others go on freeing.
template <typename Predicate>
void DeviceFrees::close(WaitPermit& permit, Predicate which) noexcept {
  FreedBlocks::Walk walk;
  while (permit.given()) {
    Epochs closing = freed_.take_open(walk, which);
    if (closing.empty()) {
      return;
    }
    record_fence(closing.front(), permit);
    freed_.put_back(closing, FreedBlocks::Place::kLast);
  }
}

// Those for which that takes no wait.
void DeviceFrees::close_recordable(WaitPermit& permit) noexcept {
  close(permit,
        [&](const Epoch& epoch) { return epoch.order.of_stream() || fences_.can_record(); });
}

// Another thread may have seen to it, or have freed more since.
void DeviceFrees::close_when_due(const Context& context) noexcept {
  if (!freed_.look_for_full()) {
    return;
  }
  const arena::Headroom headroom = context.headroom();
  WaitPermit permit(captures_);
  close(permit, [&](const Epoch& epoch) {
    return arena::is_epoch_full(epoch.blocks.size(), epoch.bytes, headroom);
  });
}

void DeviceFrees::stream_will_end(CUstream stream) {
  const StreamId ending = stream_id(stream, false);
  if (ending.is_default() || !any()) {
    return;
  }
  {
    WaitPermit permit(captures_);
    close(permit, [&](const Epoch& epoch) {
      return epoch.order.of_stream() && epoch.order.stream == ending;
    });
  }
  freed_.forget_stream(ending);
}

// By an event of its stream; else of the contexts, but not now when one may be ending.
// Precondition: the permit is given.
void DeviceFrees::record_fence(Epoch& epoch, WaitPermit& permit) noexcept {
  Fence& fence = epoch.fence;
  if (epoch.order.of_stream()) {
    fences_.record(fence, *epoch.order.context, epoch.order.id, epoch.order.stream);
  }
  if (!fence.complete && fences_.can_record()) {
    fences_.record(fence, device_, epoch.others);
  } else if (!fence.complete) {
    fence.complete = synchronize_owners(epoch, permit);
  }
}

// As a free under CUBFC_FREE=sync. A context whose work has gone wrong for good has no work left.
bool DeviceFrees::synchronize_owners(const Epoch& epoch, WaitPermit& permit) {
  const Context* done = nullptr;
  for (const FreedBlocks::Block& block : epoch.blocks) {
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

// A fence that has failed is tried again.
bool DeviceFrees::is_done(Epoch& epoch, WaitPermit& permit) {
  if (!epoch.fence.complete && permit.given()) {
    fences_.give_back(epoch.fence);
    record_fence(epoch, permit);
  }
  return epoch.fence.complete && fences_.is_passed(epoch.fence, permit);
}

void DeviceFrees::collect() noexcept {
  if (!freed_.any_closed()) {
    return;
  }
  WaitPermit permit(captures_);
  FreedBlocks::Walk walk;
  for (Epochs one = freed_.take_closed(walk); !one.empty(); one = freed_.take_closed(walk)) {
    if (is_done(one.front(), permit)) {
      reclaim(one);
    } else {
      freed_.put_back(one, FreedBlocks::Place::kFirst);
      walk.past = true;
    }
  }
}

void DeviceFrees::close_and_collect() noexcept {
  if (any()) {
    WaitPermit permit(captures_);
    close_recordable(permit);
  }
  collect();
}

bool DeviceFrees::wait_for_oldest() noexcept {
  Epochs one = freed_.take_oldest();
  if (one.empty()) {
    WaitPermit permit(captures_);
    bool closed = false;
    close(permit, [&](const Epoch&) { return !std::exchange(closed, true); });
    one = freed_.take_oldest();
  }
  if (one.empty()) {
    return freed_.wait_for_others();
  }
  Epoch& epoch = one.front();
  bool done = false;
  if (!epoch.fence.complete) {
    WaitPermit permit(captures_);
    done = is_done(epoch, permit);
  }
  if (!done && epoch.fence.complete) {
    done = fences_.wait_for(epoch.fence) == CUDA_SUCCESS;
  }
  if (!done) {
    WaitPermit permit(captures_);
    done = permit.given() && synchronize_owners(epoch, permit);
  }
  if (!done) {
    freed_.put_back(one, FreedBlocks::Place::kFirst);
    return false;
  }
  reclaim(one);
  return true;
}

CUresult DeviceFrees::wait_for_all(const Context& owner, Context* in) {
  std::optional<WaitPermit> permit(std::in_place, captures_);
  if (!permit->given()) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  std::vector<Context*> others;
  if (is_stranger(in)) {
    others.push_back(in);
  }
  if (captures_.any_has_begun() && fences_.can_record() && contexts_.knows_current()) {
    close_recordable(*permit);
    Fence fence;
    fences_.record(fence, device_, others);
    if (fence.complete) {
      permit.reset();
      const CUresult result = fences_.wait_for(fence, &owner);
      fences_.give_back(fence);
      collect();
      return result;
    }
    fences_.give_back(fence);
  }
  // Chosen before the wait: what is freed while it goes on may be used by later work.
  const std::uint64_t covered = any() ? freed_.cover(others) : 0;
  const CUresult result = contexts_.synchronize(owner, *permit, others);
  if (result == CUDA_SUCCESS && covered != 0) {
    for (Epochs one = freed_.take_covered(covered); !one.empty();
         one = freed_.take_covered(covered)) {
      reclaim(one);
    }
  }
  return result;
}

void DeviceFrees::reclaim(Epochs& epoch) noexcept {
  fences_.give_back(epoch.front().fence);
  freed_.reclaim(epoch);
}

}  // namespace cubfc
