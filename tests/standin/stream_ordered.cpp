// cuMemAllocAsync and cuMemFreeAsync. What is freed is for requests of its size in the same stream
// at once (CUDA programming guide, stream-ordered memory allocation), and free for all once its
// stream gets there, but for what its pool keeps: bytes that count and have no place, up to the
// pool's release threshold.
// The driver gives back the rest at the next synchronisation, and here it does so at once.
#include <algorithm>
#include <string>

#include "allocate.h"
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "graph_memory.h"
#include "pools.h"
#include "work.h"

namespace standin {
namespace {

// Memory of the host, which no device counts.
Allocation* TakeOfHost(const Pool& pool, Context& context, std::size_t bytes) {
  void* const map = MapHost(bytes);
  if (!map) return nullptr;
  const bool managed = pool.type != CU_MEM_ALLOCATION_TYPE_PINNED;
  return &AddAllocation(managed ? Kind::kManaged : Kind::kHostPool,
                        reinterpret_cast<CUdeviceptr>(map), bytes, context);
}

// From what the pool keeps, as far as that goes.
Allocation* TakeOfDevice(Pool& pool, Context& context, std::size_t bytes) {
  const std::size_t reused = std::min(pool.kept, bytes);
  Discard(pool, reused);
  Allocation* const added = AllocateOn(pool.device, context, Kind::kPool, bytes);
  if (!added) Keep(pool, reused);
  return added;
}

Allocation* Take(Pool& pool, CUmemoryPool handle, Context& context, std::size_t bytes) {
  if (bytes > pool.most || UsedOf(handle) > pool.most - bytes) return nullptr;
  Allocation* const added =
      pool.is_of_device() ? TakeOfDevice(pool, context, bytes) : TakeOfHost(pool, context, bytes);
  if (added) added->pool = handle;
  return added;
}

// Takes memory, waiting for frees that are under way rather than failing.
Allocation* TakeFromPool(Lock& lock, Pool& pool, CUmemoryPool handle, Context& context,
                         std::size_t bytes) {
  for (;;) {
    if (Allocation* added = Take(pool, handle, context, bytes)) return added;
    Fences frees;
    for (const auto& [base, allocation] : state().allocations) {
      const bool pending = allocation.freed && allocation.device == pool.device;
      if (pending) frees.push_back(allocation.freed);
    }
    if (frees.empty()) return nullptr;
    WaitFor(lock, frees);
  }
}

// What was freed in the stream's order and has not got there yet: the program's again, as another
// allocation. nullptr if there is none of that size.
Allocation* TakeAgain(CUmemoryPool pool, const Stream& stream, std::size_t bytes) {
  for (auto& [base, allocation] : state().allocations) {
    const bool suits = allocation.freeing && allocation.pool == pool && allocation.bytes == bytes &&
                       allocation.freed_in == stream.id &&
                       allocation.device == stream.context->device;
    if (suits) {
      Allocation& again = AddAllocation(allocation.kind, base, bytes, *stream.context);
      again.pool = pool;
      return &again;
    }
  }
  return nullptr;
}

CUresult AllocateAsync(CUdeviceptr* out, std::size_t bytes, CUmemoryPool pool, CUstream handle) {
  Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (!out) return Behaviour("cuMemAllocAsync.null_output");
  if (bytes == 0) {
    *out = 0;
    return Behaviour("cuMemAllocAsync.size_zero");
  }
  if (stream->capture) return AllocateCaptured(*stream, out, bytes);
  if (const CUresult error = CheckAllowedDuringCapture("cuMemAllocAsync")) return error;
  if (const CUresult error = CheckLegacyUse(*stream)) return error;
  if (!pool) pool = CurrentPoolOf(stream->context->device);
  std::shared_ptr<Pool> from;
  if (const CUresult error = FindPool(pool, from)) return error;
  if (from->imported) return CUDA_ERROR_INVALID_VALUE;
  const Allocation* added = TakeAgain(pool, *stream, bytes);
  if (!added) added = TakeFromPool(lock, *from, pool, *stream->context, bytes);
  if (!added) return Behaviour("cuMemAllocAsync.above_device");
  NoteUse(pool);
  *out = added->base;
  return CUDA_SUCCESS;
}

CUresult CaseOfBadFree(CUdeviceptr address) {
  if (address == 0) return Behaviour("cuMemFreeAsync.null");
  if (FindAllocation(address)) return Behaviour("cuMemFreeAsync.interior");
  const std::string unknown = CaseOfUnknown(address);
  if (unknown == "freed") return Behaviour("cuMemFreeAsync.double");
  return Behaviour(unknown == "host_pointer" ? "cuMemFreeAsync.host_pointer"
                                             : "cuMemFreeAsync.garbage");
}

CUresult FreeAsync(CUdeviceptr address, CUstream handle) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  const auto found = state().allocations.find(address);
  if (found == state().allocations.end()) return CaseOfBadFree(address);
  Allocation& allocation = found->second;
  if (allocation.freeing) return Behaviour("cuMemFreeAsync.double");
  if (stream->capture) return FreeCaptured(*stream, address);
  if (const CUresult error = CheckAllowedDuringCapture("cuMemFreeAsync")) return error;
  if (allocation.kind == Kind::kHost || allocation.kind == Kind::kRegistered ||
      allocation.kind == Kind::kReserved || allocation.kind == Kind::kIpc) {
    return Behaviour("cuMemFreeAsync.host_pointer");
  }
  if (allocation.kind == Kind::kDevice) {
    if (const CUresult error = Behaviour("cuMemFreeAsync.plain_pointer")) return error;
  }
  if (const CUresult error = CheckLegacyUse(*stream)) return error;
  if (IsOfGraph(allocation.kind)) return FreeGraphMemoryAsync(address, *stream);
  allocation.freeing = true;
  allocation.freed_in = stream->id;
  allocation.freed = Enqueue(*stream, [address, buffer_id = allocation.buffer_id] {
    const Lock own(state().mutex);
    const Allocation* const there = FindAllocation(address);
    if (there && there->buffer_id == buffer_id) Release(address);  // else it was taken again
  });
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

STREAM_ENTRY(cuMemAllocAsync, _ptsz, (CUdeviceptr * out, size_t bytes, CUstream stream),
             (out, bytes, stream)) {
  return AllocateAsync(out, bytes, nullptr, stream);
}

STREAM_ENTRY(cuMemAllocFromPoolAsync, _ptsz,
             (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream),
             (out, bytes, pool, stream)) {
  return pool ? AllocateAsync(out, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}

STREAM_ENTRY(cuMemFreeAsync, _ptsz, (CUdeviceptr address, CUstream stream), (address, stream)) {
  return FreeAsync(address, stream);
}
