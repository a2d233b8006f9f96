// Decides how a request for device memory is served: cuMemAlloc and its like.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "arena/arena.h"
#include "config/policy.h"
#include "shim/device/server.h"
#include "shim/serve/pitch.h"
#include "shim/serve/time_in_calls.h"
#include "shim/wait/device_frees.h"

namespace cubfc {

class Callers;
class Captures;
class Contexts;
class DriverRequests;
class FailedRequests;
class Background;
class MapDrawer;
class MemorySources;
class SoftReserve;
struct Context;
struct Device;
struct DriverFunctions;

// Each function answers as the driver's of the same purpose would. Thread-safe. Throws
// std::bad_alloc when the host has no memory, and has changed nothing then.
class Allocations {
 public:
  struct Uses {
    Callers& callers;  // Callers::asking() tells who asks, except in take_at_hand()
    Contexts& contexts;
    Captures& captures;
    const MemorySources& sources;
    FailedRequests& failed;
    DriverRequests& requests;
    SoftReserve& soft_reserve;
    MapDrawer& map;
    Background& background;
    TimeInCalls& time;
  };
  Allocations(const DriverFunctions& driver, const config::Policy& policy, const Uses& uses);

  // The fast path, which a hook tries before allocate(). Returns the address of a block that the
  // current context's arena has without growing. Returns 0 in all other cases: then allocate() is
  // to be called. Makes one driver call and takes the arena's lock. Throws nothing, and holds
  // nothing during the driver call, so the thread may be cancelled there. `asking`: as
  // Callers::asking_or() tells.
  CUdeviceptr take_at_hand(std::size_t bytes, const void* asking);
  CUresult allocate(CUdeviceptr* address, std::size_t bytes);
  CUresult allocate_pitch(CUdeviceptr* address, std::size_t* pitch, std::size_t width,
                          std::size_t height, unsigned element_bytes);
  CUresult allocate_managed(CUdeviceptr* address, std::size_t bytes, unsigned flags);
  // Called by the hook of cudaMalloc: an address from what the current context's arena has without
  // growing, or 0. After 0 the hook leaves the request to the CUDA runtime.
  CUdeviceptr try_allocate(std::size_t bytes);

  // For StreamOrdered.
  // Who serves a request of so many bytes.
  Server::By served_by(const Device& device, std::size_t bytes) const;
  // A block from the context's arena, for a request for which DeviceFrees::take_back() has none.
  using Wanted = DeviceFrees::Wanted;
  CUresult allocate_from_arena(Context& context, CUdeviceptr* address, const Wanted& wanted,
                               const char* function);
  // To be called when DeviceFrees::take_back() has served the request.
  void served_again(Context& context, std::size_t bytes);
  // Who asks for memory, on this thread.
  arena::Caller asking() const;
  // CUBFC_STREAM_ORDERED=arena.
  bool serves_stream_order() const {
    return policy_.stream_ordered.value == config::StreamOrdered::kArena;
  }

 private:
  // The largest request that an arena or the pool may serve, in bytes. Under CUBFC_IPC=driver a
  // larger one gets an allocation of its own from the driver, which the driver's IPC can share.
  // Otherwise there is no such bound.
  std::uint64_t most_shared() const;
  CUresult serve(Context& context, CUdeviceptr* address, std::size_t bytes, const char* function);
  CUresult allocate_from_pool(Context& context, CUdeviceptr* address, std::size_t bytes,
                              const char* function);
  enum class Mode : bool { kAsItIs, kRelaxed };  // the thread's capture mode in the call
  CUresult allocate_from_driver(Context& context, CUdeviceptr* address, std::size_t bytes,
                                const char* function, Mode mode = Mode::kAsItIs);
  CUresult without_context(CUdeviceptr* address, std::size_t bytes);
  bool is_refused_to_us(const Context& context, CUresult result);
  static void collect_waiting(const Context& context);
  arena::Allocation take(Context& context, const Wanted& wanted);
  void free_relaxed(CUdeviceptr address) const;

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Callers& callers_;
  Contexts& contexts_;
  Captures& captures_;
  const MemorySources& sources_;
  FailedRequests& failed_;
  DriverRequests& requests_;
  SoftReserve& soft_reserve_;
  MapDrawer& map_;
  Background& background_;
  TimeInCalls& time_;
  const Pitch pitch_;
  // The largest request that take_at_hand() serves, in bytes; 0 where each call is timed or logged.
  const std::uint64_t most_at_hand_;
};

}  // namespace cubfc
