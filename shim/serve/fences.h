// Marks of how far the work on a device has come, in events of our own.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "shim/device/context_end.h"

namespace cubfc {

class Contexts;
class WaitPermit;
struct DriverFunctions;

// One mark for each context that may use some device's memory: all work that was submitted there
// before it was recorded is done when its event has passed, in whatever stream.
struct Fence {
  struct Mark {
    Context* context;
    std::uint64_t id;  // of the context
    CUevent event;
  };
  std::vector<Mark> marks;
  bool complete = false;  // no context is missing
};

// Makes fences, asks the driver about them, and keeps their events to use them again. Thread-safe;
// its lock is never held across a driver call.
class Fences : private ContextListener {
 public:
  Fences(const DriverFunctions& driver, Contexts& contexts);

  // Whether the driver can record a context's work (12.5). Else nothing but is_passed() of a fence
  // without marks may be called.
  bool can_record() const noexcept;
  // Marks where the work has come to of each context that may use memory of the device, and of
  // `others`. The fence is complete then, unless a context may be ending, the driver fails, or the
  // host has no memory. Precondition: this thread holds a WaitPermit that is given.
  void record(Fence& fence, const Device& device, const std::vector<Context*>& others) noexcept;

  // Whether all marked work is done; the fence must be complete. Precondition as above.
  bool is_passed(const Fence& fence);
  // Waits for it. False when the driver fails, a context that may be ending cannot be waited for,
  // or a capture has begun. Precondition: the permit is given.
  bool wait_for(const Fence& fence, WaitPermit& permit);

  // Whether all work of this context is done now; false where the driver cannot tell. Precondition
  // as of record().
  bool is_idle(Context& context) noexcept;

  // Its events can mark something else.
  void give_back(Fence& fence) noexcept;

 private:
  void context_ended(std::uint64_t id) override;
  bool record(Fence& fence, Context& context);
  CUevent event_for(const Context& context, std::uint64_t id, CUcontext handle);
  CUresult ask(const Fence::Mark& mark);

  const DriverFunctions& driver_;
  Contexts& contexts_;
  std::mutex mutex_;                // guards the list
  std::vector<Fence::Mark> spare_;  // events that mark nothing now
};

}  // namespace cubfc
