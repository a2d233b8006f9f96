#include "shim/wait/device_frees.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "shim/device/contexts.h"
#include "shim/driver/captures.h"
#include "shim/patience.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

using std::chrono::steady_clock;

// An allocation asks about so many lanes at most.
constexpr std::size_t kFewLanes = 4;
// An allocation makes so many epochs free at most.
constexpr std::size_t kAtOnce = 32;
// So many freed bytes may wait although they are more than a quarter of what is in use.
constexpr std::uint64_t kMayWait = std::uint64_t{32} << 20;
// A bound for a thread that asks about all lanes, because others go on freeing meanwhile.
constexpr std::size_t kMostAtOnce = 1'000'000;
constexpr auto kForever = steady_clock::duration::max();

}  // namespace

// Whether the context may not use the device's memory. Its work then counts only for the blocks
// that were freed in it.
bool DeviceFrees::is_stranger(const Context* context) const {
  return context != nullptr && !context->may_use(device_);
}

bool DeviceFrees::add(Context& context, CUdeviceptr address, const How& how) {
  bool there = true;
  if (how.order == nullptr || !add_in_order(context, address, how, there)) {
    there = freed_.add(context, address, is_stranger(how.in) ? how.in : nullptr);
  }
  device_.use.changed();
  return there;
}

// False when the stream's fence cannot be recorded. `there` is set to what add() returns.
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
    there = freed_.add(context, address, order, fence,
                       is_stranger(order.context) ? order.context : nullptr, how.again);
  } catch (const std::bad_alloc&) {
    fences_.give_back(fence);
    throw;
  }
  fences_.give_back(fence);  // if it was not taken over
  return true;
}

CUdeviceptr DeviceFrees::take_back(Context& context, const Order& order, const Wanted& wanted) {
  if (!any()) {
    return 0;
  }
  Epochs done;
  const CUdeviceptr address = freed_.take_back(context, order, wanted, done);
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

// While a stream captures, the full epoch stays open. Between the test and close() another thread
// may close the full epoch; then close() closes the next one, or nothing.
void DeviceFrees::close_when_due() noexcept {
  if (freed_.is_full()) {
    {
      WaitPermit permit(captures_);
      close(permit);
    }
    collect(kFewLanes, kAtOnce);
  } else if (freed_.has_many_closed()) {
    collect(kFewLanes, kAtOnce);  // frees in stream order never have an open epoch
  }
}

// Whether so many freed bytes may wait. Without a bound, a program whose host runs ahead of its
// device would come to hold all of the device's memory as freed blocks. Then an allocation would
// have to wait for work on the device, and that work may be waiting for the very thread that
// allocates. So no more may wait than a quarter of what is in use (or kMayWait), nor than half of
// what the next allocation could get without a wait.
bool DeviceFrees::may_wait(std::uint64_t bytes) const {
  std::uint64_t in_use = 0;
  std::uint64_t free = device_.preallocation.bytes();
  bool is_first = true;
  contexts_.for_each_alive_on(device_, [&](const Context& context) {
    const bool is_pool = device_.server->by == Server::By::kPool;
    const arena::Headroom room =
        is_pool ? device_.server->headroom(context) : context.arena.headroom();
    if (is_first || !is_pool) {  // contexts share a pool
      in_use += arena::less(room.in_use, room.retired);
      free += room.free;
    }
    is_first = false;
  });
  if (bytes > std::max(in_use / 4, kMayWait)) {
    return false;
  }
  return bytes <= free / 2 ||
         bytes <= (free + std::min(device_.limit.budget.left(),
                                   contexts_.free_at_driver(device_).value_or(0))) /
                      2;
}

CUresult DeviceFrees::hold_back(const Context& owner) noexcept try {
  const std::uint64_t waiting = freed_.plain_bytes();
  if (waiting == 0 || may_wait(waiting)) {
    return CUDA_SUCCESS;
  }
  const CUresult result = wait_for_all(owner, contexts_.current());
  return stays(result) ? result : CUDA_SUCCESS;
} catch (const std::bad_alloc&) {
  return CUDA_SUCCESS;
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

// Leaves the fence incomplete when a context may be ending. Precondition: the permit is given.
void DeviceFrees::record_fence(Epoch& epoch, WaitPermit& permit) noexcept {
  fences_.give_back(epoch.fence);
  if (fences_.can_record()) {
    fences_.record(epoch.fence, device_, epoch.others);
  } else {
    epoch.fence.complete = synchronize_owners(epoch, permit);
  }
}

// Waits for the work on the epoch's blocks, as a free under CUBFC_FREE=sync does. Returns whether
// that work is done. A context with an error that stays has no work left.
bool DeviceFrees::synchronize_owners(const Epoch& epoch, WaitPermit& permit) {
  const Context* done = nullptr;
  const auto synchronize = [&](const auto& each) {
    if (each.context == done) {
      return true;
    }
    const CUresult result = permit.given()
                                ? contexts_.synchronize(*each.context, permit, epoch.others)
                                : CUDA_ERROR_NOT_READY;
    done = each.context;
    return result == CUDA_SUCCESS || stays(result);
  };
  return std::all_of(epoch.blocks.begin(), epoch.blocks.end(), synchronize) &&
         std::all_of(epoch.gathered.begin(), epoch.gathered.end(), synchronize);
}

// Whether the epoch's work is done: CUDA_SUCCESS, or CUDA_ERROR_NOT_READY if not. Other errors:
// that cannot be told now.
CUresult DeviceFrees::is_done(Epoch& epoch, WaitPermit& permit) {
  if (!epoch.fence.complete && permit.given() && fences_.can_record()) {
    record_fence(epoch, permit);
  }
  return epoch.fence.complete ? fences_.is_passed(epoch.fence, permit) : CUDA_ERROR_UNKNOWN;
}

// Asks about the oldest epoch of one lane after the other. Stops when `lanes` such epochs were not
// done, or when `most` epochs were done.
void DeviceFrees::collect(std::size_t lanes, std::size_t most) noexcept {
  while (lanes > 0 && most > 0) {
    WaitPermit permit(captures_);  // given back now and then: it holds up captures
    for (std::size_t i = 0; i < kAtOnce && lanes > 0 && most > 0; ++i) {
      Epochs one = freed_.take_closed();
      if (one.empty()) {
        return;
      }
      const CUresult result = is_done(one.front(), permit);
      if (result == CUDA_SUCCESS) {
        reclaim(one);
        --most;
      } else {
        one.front().stuck = result != CUDA_ERROR_NOT_READY;
        freed_.put_back(one, FreedBlocks::Place::kFirst);
        --lanes;
      }
    }
  }
}

void DeviceFrees::collect() noexcept {
  if (freed_.is_full() && fences_.can_record()) {
    close_when_due();  // a capture has kept the epoch open
  } else if (freed_.any_closed()) {
    collect(kFewLanes, kAtOnce);
  }
}

void DeviceFrees::close_and_collect(std::size_t lanes, std::size_t most) noexcept {
  if (!any()) {
    return;
  }
  if (fences_.can_record()) {
    WaitPermit permit(captures_);
    close(permit);
  }
  collect(lanes, most);
}

void DeviceFrees::close_and_collect() noexcept {
  close_and_collect(freed_.lanes() + 1, kMostAtOnce);  // with the lane of what is closed now
}

void DeviceFrees::prepare_for_capture() noexcept {
  close_and_collect(kFewLanes, kAtOnce);
}

// Makes one epoch free, and returns whether there was one. Waits for the contexts of an epoch that
// has no fence, or about whose fence the driver cannot tell. Where the driver cannot record a
// context's work, close() itself waits for the work of the epoch that it closes.
bool DeviceFrees::collect_by_waiting() noexcept {
  WaitPermit permit(captures_);
  close(permit);
  for (std::size_t lanes = freed_.lanes(); lanes > 0; --lanes) {
    Epochs one = freed_.take_closed();
    if (one.empty()) {
      break;
    }
    const bool is_unknown = one.front().stuck || !one.front().fence.complete;
    const bool is_over = is_unknown ? permit.given() && synchronize_owners(one.front(), permit)
                                    : is_done(one.front(), permit) == CUDA_SUCCESS;
    if (is_over) {
      reclaim(one);
      return true;
    }
    freed_.put_back(one, FreedBlocks::Place::kFirst);
  }
  return false;
}

// How long a wait for freed blocks may last with this prospect. Zero: blocks become free only by a
// driver call that waits for work.
steady_clock::duration DeviceFrees::patience_with(FreedBlocks::Prospect prospect,
                                                  ForStreams for_streams) const noexcept {
  switch (prospect) {
    case FreedBlocks::Prospect::kPending:
      return kForever;
    case FreedBlocks::Prospect::kInStreams:
      return for_streams == ForStreams::kBriefly ? patience::kForStreamOrder : kForever;
    case FreedBlocks::Prospect::kInHand:
      // Without events the other thread waits for the epoch's work in a call.
      return fences_.can_record() ? patience::kForDriverCall : kForever;
    case FreedBlocks::Prospect::kStuck:
      break;
  }
  return {};
}

// Waits until the predicate is true, or nothing can be waited for; returns the predicate. Several
// threads may wait at once, so none keeps an epoch in hand while it sleeps.
template <typename Predicate>
bool DeviceFrees::wait_until(ForStreams for_streams, Predicate predicate) noexcept {
  constexpr auto kNever = steady_clock::time_point::max();
  steady_clock::time_point limited_since = kNever;
  std::chrono::microseconds pause = patience::kShortestPause;
  const steady_clock::time_point start = steady_clock::now();
  for (;;) {
    close_and_collect();
    if (predicate() || !any()) {
      return predicate();
    }
    const steady_clock::time_point now = steady_clock::now();
    if (for_streams == ForStreams::kBriefly && now - start > patience::kUntilTold) {
      tell_of_long_wait();
    }
    const steady_clock::duration patience = patience_with(freed_.prospect(), for_streams);
    if (patience == steady_clock::duration::zero()) {
      if (!collect_by_waiting() || predicate()) {
        return predicate();
      }
    } else if (patience == kForever) {
      limited_since = kNever;
    } else {
      limited_since = std::min(limited_since, now);
      if (now - limited_since > patience) {
        return predicate();
      }
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, patience::kLongestPause);
  }
}

void DeviceFrees::tell_of_long_wait() noexcept try {
  if (!told_of_long_wait_.exchange(true)) {
    log::warn(
        "GPU {}: an allocation has waited {} s: all memory left is freed, and may still be used by "
        "work on the GPU; with CUBFC_FREE=sync the frees wait instead",
        device_.handle, patience::kUntilTold.count());
  }
} catch (...) {  // the wait goes on
}

bool DeviceFrees::wait_for_any(std::size_t before) noexcept {
  return wait_until(ForStreams::kBriefly, [&] { return freed_.reclaimed() != before; });
}

void DeviceFrees::wait_for_blocks_of(const Context& context) noexcept {
  if (any()) {
    const std::uint64_t newest = freed_.newest();
    wait_until(ForStreams::kAsLongAsItTakes, [&] { return !freed_.has_until(newest, &context); });
  }
}

CUresult DeviceFrees::wait_for_all(const Context& owner, Context* current) {
  const bool by_events = captures_.any_has_begun() && fences_.can_record();
  std::optional<WaitPermit> permit(
      std::in_place, captures_,
      by_events ? WaitPermit::For::kAnything : WaitPermit::For::kCallsThatBlock);
  if (!permit->given()) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  std::vector<Context*> others;
  if (is_stranger(current)) {
    others.push_back(current);
  }
  if (by_events && contexts_.knows_current()) {
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
  // The epochs are marked before the wait: what is freed during the wait may be used by later work.
  const std::uint64_t covered = any() ? freed_.cover(device_) : 0;
  const CUresult result = contexts_.synchronize(owner, *permit, others, current);
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
