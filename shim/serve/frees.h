// Where a free of device memory is decided: cuMemFree and its like.
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
// std::bad_alloc when the host has no memory; the block is then as it was before, but may no longer
// be shared with other processes.
class Frees {
 public:
  struct Uses {
    Contexts& contexts;
    Ipc& ipc;
    WaitingFrees& waiting;  // frees that do not wait for the device themselves
    DriverRequests& requests;
    TimeInCalls& time;
  };
  Frees(const DriverFunctions& driver, const config::Policy& policy, const Uses& uses);

  // Before free(): mostly this is all, under CUBFC_FREE=deferred, for a block of the current
  // context's arena. One driver call and the arena's lock. Throws nothing, and holds nothing during
  // that call, so the thread may be cancelled there. kFull: it is freed, and tidy() is to be
  // called.
  arena::Arena::Gathered free_at_hand(CUdeviceptr address);
  // An error that stays, of earlier work; else CUDA_SUCCESS.
  CUresult tidy() noexcept;
  CUresult free(CUdeviceptr address);

  // For cudaFree, which leaves everything that is not plain to the CUDA runtime: true when the
  // address was a block, which is the program's no longer.
  bool try_free(CUdeviceptr address);

  // For StreamOrdered. Frees a block without a wait: it can be given to others when the work that
  // `how` names is done.
  CUresult free_later(Context& context, CUdeviceptr address, const DeviceFrees::How& how);
  // What the driver says to a free of this block without a context, or when the work of its owner
  // has gone wrong for good; CUDA_SUCCESS if it does not mind, or neither is so.
  CUresult refused_by_driver(Context& owner, CUdeviceptr address, bool has_context) const;

 private:
  // The owner of what is freed, and the context in which it is: nullptr where that is not known.
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
  const bool at_hand_;      // free_at_hand() looks; false where each free is timed or told of
  const bool times_waits_;
  const TickCounter ticks_;
};

}  // namespace cubfc
