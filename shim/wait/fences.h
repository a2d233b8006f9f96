// Marks of how far the work on a device has come, in events of our own.
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

// All work that was submitted before it was recorded is done when its events have passed: in a
// stream, or in whatever stream of each context that may use some device's memory.
struct Fence {
  struct Mark {
    Context* context;
    std::uint64_t id;  // of the context
    CUevent event;
  };
  std::vector<Mark> marks;
  bool complete = false;  // nothing is missing
};

// Makes fences, asks the driver about them, and keeps their events to use them again. Thread-safe;
// its lock is never held across a driver call.
class Fences : private ContextListener {
 public:
  Fences(const DriverFunctions& driver, Contexts& contexts);

  // Whether the driver can record a context's work (12.5), and not only a stream's.
  bool can_record() const noexcept;
  // Marks where the work has come to of each context that may use memory of the device, and of
  // `others`. The fence is complete then, unless a context may be ending, the driver fails, or the
  // host has no memory. Preconditions: can_record(); this thread holds a WaitPermit that is given.
  void record(Fence& fence, const Device& device, const std::vector<Context*>& others) noexcept;
  // Marks where the work of this stream of this thread's has come to, which is of the context while
  // that has the id. Complete as above; not when the driver takes the stream for another context's,
  // as a green one's. Precondition: the stream does not capture.
  void record(Fence& fence, Context& context, std::uint64_t id, const StreamId& stream) noexcept;

  // CUDA_SUCCESS when all marked work is done; the fence must be complete. CUDA_ERROR_NOT_READY
  // when it is not; another error when that cannot be told now. While a stream captures it asks in
  // the relaxed mode.
  CUresult is_passed(const Fence& fence, const WaitPermit& permit);
  // Waits for it, in the relaxed mode: a capture can go on, and begin. What the wait for `owner`
  // reported; CUDA_ERROR_NOT_READY when a context that may be ending could not be waited for.
  CUresult wait_for(const Fence& fence, const Context* owner = nullptr);

  // Whether all work of this context is done now; false where the driver cannot tell. Precondition
  // as of record().
  bool is_idle(Context& context, const WaitPermit& permit) noexcept;

  // Its events can mark something else.
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
