// Fences: CUDA events that cubfc records to learn when the work that was submitted to a device so
// far is done.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "shim/device/context_end.h"
#include "shim/driver/stream_id.h"

namespace cubfc {

class Contexts;
class WaitPermit;
struct DriverFunctions;

// When all events of a fence have passed, all work that was submitted before the fence was recorded
// is done: the work of one stream, or of all streams of each context that may use a device's
// memory.
struct Fence {
  struct Mark {
    Context* context;
    std::uint64_t id;  // of the context
    CUevent event;
  };
  std::vector<Mark> marks;
  bool complete = false;  // no mark is missing
};

// Makes fences, asks the driver about them, and keeps their events to use them again. Thread-safe;
// its lock is never held across a driver call.
class Fences : private ContextListener {
 public:
  Fences(const DriverFunctions& driver, Contexts& contexts);

  // Whether the driver can record an event for all work of a context (from 12.5 on), and not only
  // for a stream's.
  bool can_record() const noexcept;
  // Records an event for the work so far of each context that may use memory of the device, and of
  // each of `others`. The fence is complete then, unless a context may be ending, the driver fails,
  // or the host has no memory. Preconditions: can_record(); this thread holds a WaitPermit that is
  // given.
  void record(Fence& fence, const Device& device, const std::vector<Context*>& others) noexcept;
  // Records an event for the work so far of one stream of the context that has this id. If
  // `context` has another id by now, the stream's context has ended: records nothing, since there
  // is nothing to wait for. The fence is complete then, with the same exceptions as above and one
  // more: the driver says that the stream belongs to another context, such as a green context.
  // Preconditions: the stream does not capture; a per-thread default stream is this thread's own.
  void record(Fence& fence, Context& context, std::uint64_t id, const StreamId& stream) noexcept;

  // Asks the driver; does not wait. CUDA_SUCCESS when all marked work is done, CUDA_ERROR_NOT_READY
  // when it is not, another error when that cannot be told now. Asks in the relaxed capture mode
  // while a stream captures. Precondition: the fence is complete.
  CUresult is_passed(const Fence& fence, const WaitPermit& permit);
  // Waits until all marked work is done. Waits in the relaxed capture mode, so that a capture can
  // go on, or begin. Returns what the wait for `owner` reported. If that is CUDA_SUCCESS, and
  // another context may be ending or could not be waited for, returns CUDA_ERROR_NOT_READY.
  CUresult wait_for(const Fence& fence, const Context* owner = nullptr);

  // Whether all work of this context is done now. False where the driver cannot tell, also if
  // can_record() is false. Precondition: `permit` is given.
  bool is_idle(Context& context, const WaitPermit& permit) noexcept;

  // Empties the fence; its events are recorded again for other fences.
  void give_back(Fence& fence) noexcept;

 private:
  void context_ended(std::uint64_t id) override;
  bool record(Fence& fence, Context& context);
  CUevent event_for(const Context& context, std::uint64_t id, CUcontext handle);
  template <typename Record>
  bool record(Fence& fence, Context& context, std::uint64_t id, Record call);
  CUresult ask(const Fence::Mark& mark);

  const DriverFunctions& driver_;
  Contexts& contexts_;
  std::mutex mutex_;                // guards the list
  std::vector<Fence::Mark> spare_;  // events that mark nothing now
};

}  // namespace cubfc
