#include "shim/serve/stream_ordered.h"

#include <algorithm>

#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/driver/captures.h"
#include "shim/driver/pushed_context.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/serve/allocations.h"
#include "shim/serve/driver_requests.h"
#include "shim/serve/frees.h"
#include "shim/tell/log.h"
#include "shim/wait/waiting_frees.h"

namespace cubfc {

CUresult StreamOrdered::at_driver(const Request& request, CUdeviceptr* address) const {
  if (request.from_pool) {
    const auto call =
        request.per_thread ? driver_.cuMemAllocFromPoolAsync_ptsz : driver_.cuMemAllocFromPoolAsync;
    return call(address, request.bytes, request.pool, request.stream);
  }
  const auto call = request.per_thread ? driver_.cuMemAllocAsync_ptsz : driver_.cuMemAllocAsync;
  return call(address, request.bytes, request.stream);
}

// While the request's stream captures, the driver makes the request a node of the graph. It is not
// entered in the ledger: the driver takes the memory when the graph is launched (graph_memory.h).
CUresult StreamOrdered::allocate(CUdeviceptr* address, const Request& request) {
  if (captures_.is_capturing(request.stream, request.per_thread)) {
    return sources_.call_with_room(std::nullopt, [&] { return at_driver(request, address); });
  }
  const bool plain =
      address != nullptr && request.bytes > 0 && !(request.from_pool && is_of_host(request.pool));
  Context* const context = plain ? context_of(request) : nullptr;
  if (context == nullptr) {
    return at_driver(request, address);
  }
  const char* function = request.from_pool ? "cuMemAllocFromPoolAsync" : "cuMemAllocAsync";
  if (!is_served_by_arena(request, *context)) {
    return requests_.allocate(
        *context, driver_request(request, context->device, function), address,
        [&](CUdeviceptr* got) { return at_driver(request, got); },
        [&](CUdeviceptr got) { free_at_driver(got, request.stream, request.per_thread); });
  }
  if (const auto order = order_in(*context, request.stream, request.per_thread)) {
    DeviceFrees& frees = waiting_.of(context->device);
    frees.collect();  // else closed epochs would wait while every request is served from here
    if (const CUdeviceptr again = frees.take_back(*context, *order, {request.bytes, asking()});
        again != 0) {
      log::trace("{} {} bytes -> {:#x} (again)", function, request.bytes, again);
      *address = again;
      allocations_.served_again(*context, request.bytes);
      return CUDA_SUCCESS;
    }
  }
  return allocations_.allocate_from_arena(*context, address, {request.bytes, asking()}, function);
}

// Who asks for a block that an arena serves in place of a pool: marked, so that the arena counts
// the block as such.
arena::Caller StreamOrdered::asking() const {
  return allocations_.asking() | arena::kMarked;
}

bool StreamOrdered::is_of_host(CUmemoryPool pool) {
  const std::lock_guard lock(mutex_);
  return std::find(host_pools_.begin(), host_pools_.end(), pool) != host_pools_.end();
}

// The request counts for the pool's device, which need not be the stream's.
DriverRequest StreamOrdered::driver_request(const Request& request, Device& of_stream,
                                            const char* function) {
  Device* const of_pool = request.from_pool ? contexts_.devices().of_pool(request.pool) : nullptr;
  CUmemoryPool pool = request.pool;
  const bool asks = !request.from_pool && of_stream.limit.pools.counts();
  if (asks && (driver_.cuDeviceGetMemPool == nullptr ||
               driver_.cuDeviceGetMemPool(&pool, of_stream.handle) != CUDA_SUCCESS)) {
    pool = nullptr;
  }
  return {of_pool == nullptr ? of_stream : *of_pool, Memory::kPool, request.bytes, function, pool};
}

// The stream's context, else the current one; nullptr if there is none.
Context* StreamOrdered::context_of(const Request& request) {
  CUcontext of_stream = nullptr;
  CUcontext current = nullptr;
  if (!stream_id(request.stream, request.per_thread).is_default() &&
      driver_.cuStreamGetCtx(request.stream, &of_stream) == CUDA_SUCCESS &&
      driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && of_stream != current) {
    const PushedContext inside(driver_, of_stream);
    Context* const context = inside.pushed() ? contexts_.current_to_allocate() : nullptr;
    if (context != nullptr) {
      return context;
    }
  }
  return contexts_.current_to_allocate();
}

// The order of a stream of this context. Nothing for a default stream unless the context is
// current: the default streams of all contexts have the same handle.
std::optional<FreedBlocks::Order> StreamOrdered::order_in(Context& context, CUstream stream,
                                                          bool per_thread) const {
  const StreamId id = stream_id(stream, per_thread);
  CUcontext current = nullptr;
  if (id.is_default() &&
      (driver_.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context.handle)) {
    return std::nullopt;
  }
  return FreedBlocks::Order{&context, context.id.load(std::memory_order_acquire), id};
}

// Whether an arena serves the request: the user wishes so, and the driver would give memory of the
// current context's device, from its default pool, and the program has changed no pool
// (pools_changed()). Memory of a pool outlives its context (cuda.h, cuCtxDestroy), so only primary
// contexts will do.
bool StreamOrdered::is_served_by_arena(const Request& request, const Context& context) {
  return allocations_.serves_stream_order() && !request.from_pool && !captures_.any_open() &&
         allocations_.served_by(context.device, request.bytes) == Server::By::kArena &&
         !pools_changed_.load(std::memory_order_relaxed) && context.primary &&
         contexts_.current() == &context;
}

CUresult StreamOrdered::free_at_driver(CUdeviceptr address, CUstream stream,
                                       bool per_thread) const {
  return per_thread ? driver_.cuMemFreeAsync_ptsz(address, stream)
                    : driver_.cuMemFreeAsync(address, stream);
}

// The stream's context; nullptr if the driver does not tell.
Context* StreamOrdered::context_of(Context& owner, CUstream stream, bool per_thread) const {
  CUcontext of_stream = nullptr;
  const bool is_default = stream_id(stream, per_thread).is_default();
  const CUresult told =
      is_default ? driver_.cuCtxGetCurrent(&of_stream) : driver_.cuStreamGetCtx(stream, &of_stream);
  if (told != CUDA_SUCCESS || of_stream == nullptr) {
    return nullptr;
  }
  if (of_stream == owner.handle) {
    return &owner;
  }
  const PushedContext inside(driver_, of_stream);
  return inside.pushed() ? contexts_.current() : nullptr;
}

CUresult StreamOrdered::free(CUdeviceptr address, CUstream stream, bool per_thread) {
  const auto at_driver = [&] { return free_at_driver(address, stream, per_thread); };
  // While a stream captures, only a graph's own memory can be freed in it (cuda.h). That is never
  // an arena's.
  if (captures_.is_capturing(stream, per_thread)) {
    return at_driver();
  }
  Context* const context = contexts_.owner_of(address);
  if (context == nullptr) {
    return requests_.free(address, at_driver);
  }
  // A default stream is the current context's.
  CUcontext current = nullptr;
  const bool has_context =
      !stream_id(stream, per_thread).is_default() ||
      (driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr);
  if (const CUresult refused = frees_.refused_by_driver(*context, address, has_context);
      refused != CUDA_SUCCESS) {
    return refused;
  }
  Context* const of_stream = context_of(*context, stream, per_thread);
  const auto order = of_stream == nullptr ? std::nullopt : order_in(*of_stream, stream, per_thread);
  const bool again = of_stream == context && allocations_.serves_stream_order() &&
                     context->device.server->by != Server::By::kPool;
  const CUresult result = frees_.free_later(*context, address,
                                            {.in = of_stream == context ? nullptr : of_stream,
                                             .order = order ? &*order : nullptr,
                                             .again = again});
  log::trace("cuMemFreeAsync {:#x}: {}", address, name_of(driver_, result));
  return result;
}

// Calls `visit` with each arena that serves in place of the pool: those of primary contexts, on
// devices whose default pool this is.
template <typename Visit>
void StreamOrdered::for_each_arena_in_place_of(CUmemoryPool pool, Visit visit) {
  if (!allocations_.serves_stream_order() || driver_.cuDeviceGetDefaultMemPool == nullptr) {
    return;
  }
  const RelaxedCapture relaxed(driver_);
  contexts_.devices().for_each([&](Device& device) {
    CUmemoryPool own = nullptr;
    if (driver_.cuDeviceGetDefaultMemPool(&own, device.handle) == CUDA_SUCCESS && own == pool) {
      contexts_.for_each_alive_on(device, [&](Context& context) {
        if (context.primary) {
          visit(context.arena);
        }
      });
    }
  });
}

CUresult StreamOrdered::get_pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                           void* value) {
  const CUresult result = driver_.cuMemPoolGetAttribute(pool, attribute, value);
  const auto figure =
      attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT       ? &arena::Marked::bytes
      : attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH        ? &arena::Marked::peak_bytes
      : attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? &arena::Marked::pool_bytes
      : attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH    ? &arena::Marked::peak_pool_bytes
                                                          : nullptr;
  if (result == CUDA_SUCCESS && figure != nullptr) {
    for_each_arena_in_place_of(pool, [&](const arena::Arena& arena) {
      *static_cast<cuuint64_t*>(value) += arena.marked().*figure;
    });
  }
  return result;
}

CUresult StreamOrdered::set_pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                           void* value) {
  const CUresult result = driver_.cuMemPoolSetAttribute(pool, attribute, value);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
    for_each_arena_in_place_of(pool, [](arena::Arena& arena) { arena.restart_marked_peak(); });
  } else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) {
    for_each_arena_in_place_of(pool, [](arena::Arena& arena) { arena.restart_marked_pool_peak(); });
  }
  return result;
}

void StreamOrdered::pool_made(CUmemoryPool pool, const CUmemPoolProps& properties) {
  if (properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    if (Device* const device = contexts_.devices().get(properties.location.id)) {
      device->limit.pools.add(pool, Pools::Owner::kProgram);
    }
  } else if (properties.allocType == CU_MEM_ALLOCATION_TYPE_PINNED) {
    const std::lock_guard lock(mutex_);
    host_pools_.push_back(pool);
  }
}

CUresult StreamOrdered::destroy_pool(CUmemoryPool pool) {
  // Before the driver's call: right after it another pool may get the same handle.
  bool is_of_host = false;
  {
    const std::lock_guard lock(mutex_);
    is_of_host = std::erase(host_pools_, pool) > 0;
  }
  Pools* of_device = nullptr;
  std::uint64_t ticket = 0;
  contexts_.devices().for_each([&](Device& each) {
    if (const std::uint64_t its = each.limit.pools.begin_to_destroy(pool); its != 0) {
      of_device = &each.limit.pools;
      ticket = its;
    }
  });
  const CUresult result = driver_.cuMemPoolDestroy(pool);
  if (of_device != nullptr) {
    of_device->end_to_destroy(ticket, result == CUDA_SUCCESS);
  }
  if (is_of_host && result != CUDA_SUCCESS) {
    const std::lock_guard lock(mutex_);
    host_pools_.push_back(pool);  // has the room that erase() left
  }
  return result;
}

}  // namespace cubfc
