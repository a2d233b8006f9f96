// Decides how device memory is freed: cuMemFree and its like.
#pragma once

#include <cuda.h>

#include "arena/arena.h"
#include "shim/record/tick_counter.h"
#include "shim/serve/time_in_calls.h"
#include "shim/wait/device_frees.h"

namespace cubfc {

class Contexts;
class DriverRequests;
class Ipc;
class WaitingFrees;
struct Context;
struct DriverFunctions;

// Each function answers as the driver's of the same purpose would. Thread-safe. Throws
// std::bad_alloc when the host has no memory. The block is then live as before, but if it was
// shared, other processes may be unable to open its handle.
class Frees {
 public:
  struct Uses {
    Contexts& contexts;
    Ipc& ipc;
    WaitingFrees& waiting;  // keeps freed blocks that work may still use
    DriverRequests& requests;
    TimeInCalls& time;
  };
  Frees(const DriverFunctions& driver, const config::Policy& policy, const Uses& uses);

  // The fast path, which a hook tries before free(): frees a block of the current context's arena,
  // under CUBFC_FREE=deferred. kNot: nothing was freed, and free() is to be called. kFull: the
  // block is freed, and tidy() is to be called. Makes one driver call and takes the arena's lock.
  // Throws nothing, and holds nothing during the driver call, so the thread may be cancelled there.
  arena::Arena::Gathered free_at_hand(CUdeviceptr address);
  // Closes full epochs; waits for work if too many freed bytes wait. Returns an error that stays,
  // of earlier work; else CUDA_SUCCESS.
  CUresult tidy() noexcept;
  CUresult free(CUdeviceptr address);

  // Called by the hook of cudaFree: true when the address was a block, which is freed then. After
  // false the hook leaves the call to the CUDA runtime.
  bool try_free(CUdeviceptr address);

  // For StreamOrdered, too. Frees a block without a wait: others can get the block when the work
  // that `how` names is done.
  CUresult free_later(Context& context, CUdeviceptr address, const DeviceFrees::How& how);
  // The error with which the driver would refuse to free this block because no context is current
  // (`has_context` is false), or because the owner has an error that stays. CUDA_SUCCESS if the
  // driver would not refuse for one of these reasons.
  CUresult refused_by_driver(Context& owner, CUdeviceptr address, bool has_context) const;

 private:
  // The context whose block is freed, and the context that it is freed in. nullptr: not known.
  struct Freed {
    Context* owner;
    Context* current;
  };
  Freed find_freed(CUdeviceptr address);
  CUresult free_of(const Freed& freed, CUdeviceptr address);
  CUresult free_block(const Freed& freed, CUdeviceptr address);
  void note_long_wait(const Freed& freed, TickCounter::Ticks start, TickCounter::Ticks end);
  CUresult wait_in_free(const Freed& freed);

  const DriverFunctions& driver_;
  Contexts& contexts_;
  Ipc& ipc_;
  WaitingFrees& waiting_;
  DriverRequests& requests_;
  TimeInCalls& time_;
  const bool is_deferred_;  // CUBFC_FREE
  const bool at_hand_;      // free_at_hand() may free; false where each free is timed or logged
  const bool times_waits_;
  const TickCounter ticks_;
};

}  // namespace cubfc
