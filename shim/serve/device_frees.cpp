#include "shim/serve/device_frees.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "shim/device/contexts.h"
#include "shim/driver/captures.h"

namespace cubfc {
namespace {

using std::chrono::steady_clock;

// An allocation asks about so many lanes.
constexpr std::size_t kFewLanes = 4;
// Between two looks of who waits.
constexpr std::chrono::microseconds kShortestPause{20};
constexpr std::chrono::microseconds kLongestPause{1000};
// What another thread has in hand comes back when the driver has answered it.
constexpr std::chrono::seconds kPatience{2};

}  // namespace

// Whether its work may use the device's memory only because it was freed there.
bool DeviceFrees::is_stranger(const Context* context) const {
  return context != nullptr && !context->may_use(device_);
}

bool DeviceFrees::add(Context& context, CUdeviceptr address, const How& how) {
  bool there = true;
  if (how.order != nullptr && add_in_order(context, address, how, there)) {
    return there;
  }
  return freed_.add(context, address, is_stranger(how.in) ? how.in : nullptr);
}

// False when the stream's fence cannot be recorded; `there` is as of add().
bool DeviceFrees::add_in_order(Context& context, CUdeviceptr address, const How& how, bool& there) {
  const Order& order = *how.order;
  Fence fence;
  {
    // While another stream captures, nothing may be submitted to a default stream.
    const WaitPermit permit(captures_);
    if (permit.given() || !order.stream.is_default()) {
      fences_.record(fence, *order.context, order.id, order.stream);
    }
  }
  if (!fence.complete) {
    return false;
  }
  try {
    there = freed_.add(context, address, order, fence, how.again);
  } catch (const std::bad_alloc&) {
    fences_.give_back(fence);
    throw;
  }
  fences_.give_back(fence);  // if it was not taken over
  return true;
}

CUdeviceptr DeviceFrees::take_back(Context& context, const Order& order, std::uint64_t bytes) {
  if (!any()) {
    return 0;
  }
  Epochs done;
  const CUdeviceptr address = freed_.take_back(context, order, bytes, done);
  if (!done.empty()) {
    reclaim(done);
  }
  return address;
}

void DeviceFrees::stream_will_end(CUstream stream) {
  const StreamId ending = stream_id(stream, false);
  if (!ending.is_default() && any()) {
    freed_.forget_stream(ending);
  }
}

// While a stream captures, it stays open, and full. Another thread may have seen to it, or have
// freed more since.
void DeviceFrees::close_when_due() noexcept {
  if (freed_.is_full()) {
    WaitPermit permit(captures_);
    close(permit);
  }
}

void DeviceFrees::close(WaitPermit& permit) noexcept {
  if (!permit.given()) {
    return;
  }
  if (Epochs closing = freed_.take_open(); !closing.empty()) {
    record_fence(closing.front(), permit);
    freed_.put_back(closing, FreedBlocks::Place::kLast);
  }
}

// Not now when a context may be ending. Precondition: the permit is given.
void DeviceFrees::record_fence(Epoch& epoch, WaitPermit& permit) noexcept {
  fences_.give_back(epoch.fence);
  if (fences_.can_record()) {
    fences_.record(epoch.fence, device_, epoch.others);
  } else {
    epoch.fence.complete = synchronize_owners(epoch, permit);
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

// CUDA_ERROR_NOT_READY: not yet. Other errors: that cannot be told now.
CUresult DeviceFrees::is_done(Epoch& epoch, WaitPermit& permit) {
  if (epoch.blocks.empty()) {
    return CUDA_SUCCESS;  // its stream has taken it back
  }
  if (!epoch.fence.complete && permit.given() && fences_.can_record()) {
    record_fence(epoch, permit);
  }
  return epoch.fence.complete ? fences_.is_passed(epoch.fence, permit) : CUDA_ERROR_UNKNOWN;
}

// So many lanes at most. Whether some epoch's work is known not to be done.
bool DeviceFrees::collect(std::size_t lanes) noexcept {
  bool any_pending = false;
  WaitPermit permit(captures_);
  while (lanes > 0) {
    Epochs one = freed_.take_closed();
    if (one.empty()) {
      break;
    }
    const CUresult result = is_done(one.front(), permit);
    if (result == CUDA_SUCCESS) {
      reclaim(one);
    } else {
      any_pending = any_pending || result == CUDA_ERROR_NOT_READY;
      freed_.put_back(one, FreedBlocks::Place::kFirst);
      --lanes;
    }
  }
  return any_pending;
}

void DeviceFrees::collect() noexcept {
  if (freed_.is_full() && fences_.can_record()) {
    close_when_due();  // a capture has kept it open
  }
  if (freed_.any_closed()) {
    collect(kFewLanes);
  }
}

bool DeviceFrees::close_and_collect_all() noexcept {
  if (fences_.can_record()) {
    WaitPermit permit(captures_);
    close(permit);
  }
  return collect(freed_.lanes());
}

void DeviceFrees::close_and_collect() noexcept {
  if (any()) {
    close_and_collect_all();
  }
}

// An epoch that has no fence, because none can be recorded.
bool DeviceFrees::collect_by_waiting() noexcept {
  WaitPermit permit(captures_);
  close(permit);
  for (std::size_t lanes = freed_.lanes(); lanes > 0; --lanes) {
    Epochs one = freed_.take_closed();
    if (one.empty()) {
      break;
    }
    if (permit.given() && synchronize_owners(one.front(), permit)) {
      reclaim(one);
      return true;
    }
    freed_.put_back(one, FreedBlocks::Place::kFirst);
  }
  return false;
}

// Several threads may wait: nothing is kept in hand meanwhile.
template <typename Predicate>
bool DeviceFrees::wait_until(Predicate predicate) noexcept {
  std::optional<steady_clock::time_point> hopeless_since;
  std::chrono::microseconds pause = kShortestPause;
  for (;;) {
    const bool any_pending = close_and_collect_all();
    if (predicate() || !any()) {
      return predicate();
    }
    if (any_pending) {
      hopeless_since.reset();
    } else if (!collect_by_waiting()) {
      const steady_clock::time_point now = steady_clock::now();
      hopeless_since = hopeless_since.value_or(now);
      if (!freed_.any_in_hand() || now - *hopeless_since > kPatience) {
        return predicate();
      }
    } else if (predicate()) {
      return true;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kLongestPause);
  }
}

bool DeviceFrees::wait_for_any() noexcept {
  const std::size_t before = freed_.reclaimed();
  return wait_until([&] { return freed_.reclaimed() != before; });
}

void DeviceFrees::wait_for_blocks_of(const Context& context) noexcept {
  if (any() && freed_.has_block_of(context)) {
    wait_until([&] { return !freed_.has_block_of(context); });
  }
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
    close(*permit);
    Fence fence;
    fences_.record(fence, device_, others);
    if (fence.complete) {
      permit.reset();
      const CUresult result = fences_.wait_for(fence, &owner);
      fences_.give_back(fence);
      close_and_collect();
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
