// Allocation and free in stream order: the driver's pools, or the arena under
// CUBFC_STREAM_ORDERED=arena.
#include <algorithm>

#include "shim/driver/pushed_context.h"
#include "shim/serve/device_memory.h"
#include "shim/tell/log.h"

namespace cubfc {

CUresult DeviceMemory::at_driver(const StreamOrderedRequest& request, CUdeviceptr* address) const {
  if (request.from_pool) {
    const auto call =
        request.per_thread ? driver_.cuMemAllocFromPoolAsync_ptsz : driver_.cuMemAllocFromPoolAsync;
    return call(address, request.bytes, request.pool, request.stream);
  }
  const auto call = request.per_thread ? driver_.cuMemAllocAsync_ptsz : driver_.cuMemAllocAsync;
  return call(address, request.bytes, request.stream);
}

// While its stream captures, the memory is the graph's, and no call of the program's frees it.
CUresult DeviceMemory::allocate_async(CUdeviceptr* address, const StreamOrderedRequest& request) {
  if (captures_.is_capturing(request.stream, request.per_thread)) {
    return call_with_room(std::nullopt, [&] { return at_driver(request, address); });
  }
  const bool plain =
      address != nullptr && request.bytes > 0 && !(request.from_pool && is_of_host(request.pool));
  Context* const context = plain ? context_of(request) : nullptr;
  if (context == nullptr) {
    return at_driver(request, address);
  }
  const char* function = request.from_pool ? "cuMemAllocFromPoolAsync" : "cuMemAllocAsync";
  if (!is_served_in_stream_order(request, *context)) {
    return allocate_from_driver(
        *context, driver_request(request, context->device, function), address,
        [&](CUdeviceptr* got) { return at_driver(request, got); },
        [&](CUdeviceptr got) { free_at_driver_async(got, request.stream, request.per_thread); });
  }
  if (const auto order = order_in(*context, request.stream, request.per_thread)) {
    if (const CUdeviceptr again = waiting_.take_back(*context, *order, request.bytes); again != 0) {
      log::trace("{} {} bytes -> {:#x} (again)", function, request.bytes, again);
      *address = again;
      return CUDA_SUCCESS;
    }
  }
  return allocate_from_arena(*context, address, request.bytes, function);
}

bool DeviceMemory::is_of_host(CUmemoryPool pool) {
  const std::lock_guard lock(host_pools_mutex_);
  return std::find(host_pools_.begin(), host_pools_.end(), pool) != host_pools_.end();
}

// The memory is the pool's device's.
DeviceMemory::DriverRequest DeviceMemory::driver_request(const StreamOrderedRequest& request,
                                                         Device& of_stream, const char* function) {
  Device* const of_pool = request.from_pool ? contexts_.device_of(request.pool) : nullptr;
  CUmemoryPool pool = request.pool;
  const bool asks = !request.from_pool && of_stream.pools.counts();
  if (asks && (driver_.cuDeviceGetMemPool == nullptr ||
               driver_.cuDeviceGetMemPool(&pool, of_stream.handle) != CUDA_SUCCESS)) {
    pool = nullptr;
  }
  return {of_pool == nullptr ? of_stream : *of_pool, Holding::kPool, request.bytes, function, pool};
}

// The stream's context, else the current one; nullptr if there is none.
Context* DeviceMemory::context_of(const StreamOrderedRequest& request) {
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

// By which a block of this context that is freed in the stream is known again. Nothing for a
// default stream of another context: it has the same name here.
std::optional<StreamId> DeviceMemory::order_in(const Context& context, CUstream stream,
                                               bool per_thread) const {
  const StreamId id = stream_id(stream, per_thread);
  CUcontext current = nullptr;
  if (id.is_default() &&
      (driver_.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != context.handle)) {
    return std::nullopt;
  }
  return id;
}

// From the arena, because the user wishes so and the driver's own answer would be memory like any
// other: of the current context's device, of its pool as it came. What a pool gives outlives its
// context (cuda.h, cuCtxDestroy), which is why only primary contexts will do.
bool DeviceMemory::is_served_in_stream_order(const StreamOrderedRequest& request,
                                             const Context& context) {
  return serves_stream_order() && !request.from_pool &&
         served_by(context.device, request.bytes) == Server::By::kArena &&
         !pools_changed_.load(std::memory_order_relaxed) && context.primary &&
         contexts_.current() == &context;
}

CUresult DeviceMemory::free_at_driver_async(CUdeviceptr address, CUstream stream,
                                            bool per_thread) const {
  return per_thread ? driver_.cuMemFreeAsync_ptsz(address, stream)
                    : driver_.cuMemFreeAsync(address, stream);
}

CUresult DeviceMemory::free_async(CUdeviceptr address, CUstream stream, bool per_thread) {
  const auto at_driver = [&] { return free_at_driver_async(address, stream, per_thread); };
  // Then only a graph's own memory can be freed (cuda.h), which is never the arena's.
  if (captures_.is_capturing(stream, per_thread)) {
    return at_driver();
  }
  Context* const context = owner_of(address);
  if (context == nullptr) {
    return free_at_driver(address, at_driver);
  }
  if (!serves_stream_order() || context->device.server->by == Server::By::kClaims) {
    return free(address);
  }
  const auto order = order_in(*context, stream, per_thread);
  const CUresult result = free_later(*context, address, order ? &*order : nullptr);
  log::trace("cuMemFreeAsync {:#x}: {}", address, name_of(driver_, result));
  return result;
}

}  // namespace cubfc
