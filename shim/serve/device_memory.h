// Where an allocation and a free of device memory are decided: cuMemAlloc, cuMemFree and their
// like.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "arena/arena.h"
#include "config/policy.h"
#include "shim/background/idle_trimmer.h"
#include "shim/device/server.h"
#include "shim/record/tick_counter.h"
#include "shim/wait/device_frees.h"

namespace cubfc {

class Callers;
class Captures;
class Contexts;
class DriverRequests;
class FailedRequests;
class Ipc;
class MapDrawer;
class SoftReserve;
class MemorySources;
class UnusedMemory;
class WaitingFrees;

// Each function answers as the driver's of the same purpose would. Thread-safe. Throws
// std::bad_alloc when the host has no memory; the block, or the request, is then as it was before,
// but a block that was not freed may no longer be shared with other processes.
class DeviceMemory {
 public:
  struct Uses {
    Callers& callers;  // who asks is Callers::asking(), but for take_at_hand()
    Contexts& contexts;
    Captures& captures;
    Ipc& ipc;
    WaitingFrees& waiting;  // frees that do not wait for the device themselves
    UnusedMemory& unused;
    const MemorySources& sources;
    FailedRequests& failed;
    DriverRequests& requests;
    SoftReserve& soft_reserve;
    MapDrawer& map;
  };
  DeviceMemory(const DriverFunctions& driver, const config::Policy& policy, const Uses& uses);

  // Before allocate(): mostly this is all. The address of a block that the current context's arena
  // has at hand; 0 where anything else is to be thought of. One driver call and the arena's lock.
  // Throws nothing, and holds nothing during that call, so the thread may be cancelled there.
  // `asking`: the return address of the program's call.
  CUdeviceptr take_at_hand(std::size_t bytes, const void* asking);
  CUresult allocate(CUdeviceptr* address, std::size_t bytes);
  CUresult allocate_pitch(CUdeviceptr* address, std::size_t* pitch, std::size_t width,
                          std::size_t height, unsigned element_bytes);
  CUresult allocate_managed(CUdeviceptr* address, std::size_t bytes, unsigned flags);
  // Before free(), likewise: a block of the current context's arena under CUBFC_FREE=deferred.
  // kFull: it is freed, and tidy_frees() is to be called.
  arena::Arena::Gathered free_at_hand(CUdeviceptr address);
  void tidy_frees() noexcept;
  CUresult free(CUdeviceptr address);

  // For cudaMalloc, which leaves everything that is not plain to the CUDA runtime: an address from
  // what the current context's arena has at hand, or 0.
  CUdeviceptr try_allocate(std::size_t bytes);
  // For cudaFree likewise: true when the address was a block, which is the program's no longer.
  bool try_free(CUdeviceptr address);

  // For StreamOrdered.
  // Who serves a request of so many bytes.
  Server::By served_by(const Device& device, std::size_t bytes) const;
  // A block from the context's arena, for a request that no block waits for in its stream.
  using Wanted = DeviceFrees::Wanted;
  CUresult allocate_from_arena(Context& context, CUdeviceptr* address, const Wanted& wanted,
                               const char* function);
  // To be called where a block that waits served the request.
  void served_again(Context& context, std::size_t bytes);
  // Frees a block without a wait: it can be given to others when the work that `how` names is done.
  CUresult free_later(Context& context, CUdeviceptr address, const DeviceFrees::How& how);
  // What the driver says to a free of this block without a context, or when the work of its owner
  // has gone wrong for good; CUDA_SUCCESS if it does not mind, or neither is so.
  CUresult refused_by_driver(const Context& owner, CUdeviceptr address, bool has_context) const;
  // Who asks for memory, on this thread.
  arena::Caller asking() const;
  // CUBFC_STREAM_ORDERED=arena.
  bool serves_stream_order() const {
    return policy_.stream_ordered.value == config::StreamOrdered::kArena;
  }

  // For the summary: time in cuMemAlloc, cuMemAllocPitch, cudaMalloc and their frees, waits
  // included. Counted only under CUBFC_SHOW_STATS.
  std::chrono::nanoseconds time_spent() const {
    return std::chrono::nanoseconds(spent_ns_.load(std::memory_order_relaxed));
  }

 private:
  class Stopwatch;

  // Larger requests have an allocation of the driver's of their own, to be shared by its IPC.
  std::uint64_t most_shared() const;
  CUresult serve(Context& context, CUdeviceptr* address, std::size_t bytes, const char* function);
  CUresult allocate_from_pool(Context& context, CUdeviceptr* address, std::size_t bytes,
                              const char* function);
  enum class Mode : bool { kAsItIs, kRelaxed };  // of the thread while a stream captures
  CUresult allocate_from_driver(Context& context, CUdeviceptr* address, std::size_t bytes,
                                const char* function, Mode mode = Mode::kAsItIs);
  CUresult without_context(CUdeviceptr* address, std::size_t bytes);
  std::size_t pitch_alignment(Device& device, unsigned element_bytes);
  static void collect_waiting(const Context& context);
  arena::Allocation take(Context& context, const Wanted& wanted);

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
  void free_relaxed(CUdeviceptr address) const;
  bool deferred() const { return policy_.free_mode.value == config::FreeMode::kDeferred; }
  // Another number after each allocation and each free.
  std::uint64_t operations() const noexcept;

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Callers& callers_;
  Contexts& contexts_;
  Captures& captures_;
  Ipc& ipc_;
  WaitingFrees& waiting_;
  UnusedMemory& unused_;
  const MemorySources& sources_;
  FailedRequests& failed_;
  DriverRequests& requests_;
  SoftReserve& soft_reserve_;
  MapDrawer& map_;
  // The largest request that take_at_hand() looks at; 0 where each is timed or told of.
  const std::uint64_t most_at_hand_;
  const bool frees_at_hand_;
  const bool times_frees_;
  std::atomic<std::uint64_t> spent_ns_{0};
  const TickCounter ticks_;
  IdleTrimmer idle_trimmer_;
};

}  // namespace cubfc
