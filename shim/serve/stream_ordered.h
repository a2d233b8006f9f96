// Allocation and free in the order of a stream (cuMemAllocAsync and its like). The driver's pools
// serve such requests, which are counted and limited here. Under CUBFC_STREAM_ORDERED=arena an
// arena serves those for which the driver would give plain memory of its default pool.
#pragma once

#include <cuda.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/wait/freed_blocks.h"

namespace cubfc {

class Allocations;
class Captures;
class Contexts;
class DriverRequests;
class Frees;
class MemorySources;
class WaitingFrees;
struct Context;
struct Device;
struct DriverFunctions;
struct DriverRequest;

// Each function answers as the driver's of the same purpose would. Thread-safe. Throws
// std::bad_alloc only before anything has been changed.
class StreamOrdered {
 public:
  struct Uses {
    Contexts& contexts;
    Captures& captures;
    WaitingFrees& waiting;
    const MemorySources& sources;
    DriverRequests& requests;
    Allocations& allocations;
    Frees& frees;
  };
  StreamOrdered(const DriverFunctions& driver, const Uses& uses)
      : driver_(driver),
        contexts_(uses.contexts),
        captures_(uses.captures),
        waiting_(uses.waiting),
        sources_(uses.sources),
        requests_(uses.requests),
        allocations_(uses.allocations),
        frees_(uses.frees) {}

  struct Request {
    std::size_t bytes;
    bool from_pool;  // the program names the pool
    CUmemoryPool pool;
    CUstream stream;
    bool per_thread;  // the calling function's stream 0 is the per-thread default stream
  };
  CUresult allocate(CUdeviceptr* address, const Request& request);
  // Never waits, with one exception: frees in streams of green contexts gather in an epoch, and on
  // a driver before 12.5 the free that fills the epoch waits for the device. A block of ours (an
  // arena's or our pool's) can be given to others when the stream's work before the free is done,
  // and under CUBFC_STREAM_ORDERED=arena to requests of the same stream at once. All other memory
  // is freed by the driver.
  CUresult free(CUdeviceptr address, CUstream stream, bool per_thread);

  // Called when the program has made a pool.
  void pool_made(CUmemoryPool pool, const CUmemPoolProps& properties);
  // Has the driver destroy a pool of the program's. The limit counts the pool until all that was
  // allocated from it is freed. If the driver refuses, the limit counts the pool as before.
  CUresult destroy_pool(CUmemoryPool pool);
  // For a pool in whose place an arena serves, get_pool_attribute() adds the driver's and the
  // arena's figures: the bytes used and reserved, and the peak of each. The reserved bytes include
  // all memory that the arena has. A peak may come out too high, since the driver's and the arena's
  // peak may have been at different times. Setting a peak to 0 sets it to what there is now, in the
  // driver and in the arena. All other attributes and pools: by the driver.
  CUresult get_pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);
  CUresult set_pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value);

  // Called after calls that replace a device's pool, or give other devices access to one. From then
  // on CUBFC_STREAM_ORDERED=arena has no effect, because a block of an arena would differ from what
  // such a pool gives.
  void pools_changed() noexcept { pools_changed_.store(true, std::memory_order_relaxed); }

 private:
  CUresult at_driver(const Request& request, CUdeviceptr* address) const;
  CUresult free_at_driver(CUdeviceptr address, CUstream stream, bool per_thread) const;
  bool is_of_host(CUmemoryPool pool);
  arena::Caller asking() const;
  DriverRequest driver_request(const Request& request, Device& of_stream, const char* function);
  Context* context_of(const Request& request);
  std::optional<FreedBlocks::Order> order_in(Context& context, CUstream stream,
                                             bool per_thread) const;
  Context* context_of(Context& owner, CUstream stream, bool per_thread) const;
  bool is_served_by_arena(const Request& request, const Context& context);
  template <typename Visit>
  void for_each_arena_in_place_of(CUmemoryPool pool, Visit visit);

  const DriverFunctions& driver_;
  Contexts& contexts_;
  Captures& captures_;
  WaitingFrees& waiting_;
  const MemorySources& sources_;
  DriverRequests& requests_;
  Allocations& allocations_;
  Frees& frees_;
  std::atomic<bool> pools_changed_{false};
  std::mutex mutex_;                      // guards the list
  std::vector<CUmemoryPool> host_pools_;  // of the host's memory, which no device's limit counts
};

}  // namespace cubfc
