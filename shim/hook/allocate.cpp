// The wrappers of functions by which the program asks for memory and gives it back: cuMemAlloc,
// managed and physical memory, arrays.
#include "shim/ask/arrays.h"
#include "shim/ask/physical_memory.h"
#include "shim/hook/calls.h"
#include "shim/serve/allocations.h"
#include "shim/serve/frees.h"
#include "shim/serve/graph_memory.h"

namespace cubfc {

using Functions = DriverFunctions;

CUresult tidy_frees(Process& process) {
  const NoCancellation no_cancellation;
  return process.frees().tidy();
}

// cuMemAlloc when take_at_hand() has returned 0.
[[gnu::noinline]] static CUresult allocate_otherwise(CUdeviceptr* address, size_t bytes,
                                                     const void* asking) {
  return answer_to(
      asking, [&](Process& p) { return p.allocations().allocate(address, bytes); },
      &Functions::cuMemAlloc_v2, address, bytes);
}

namespace wrapper {
extern "C" {

CUresult cubfc_cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  if (Process* const process = Process::active(); process != nullptr && address != nullptr)
      [[likely]] {
    const void* const asking = Callers::asking_or(CUBFC_CALLER);
    const CUdeviceptr got = process->allocations().take_at_hand(bytes, asking);
    if (got != 0) [[likely]] {
      *address = got;
      return CUDA_SUCCESS;
    }
  }
  return allocate_otherwise(address, bytes, CUBFC_CALLER);
}

CUresult cubfc_cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                                  unsigned element_bytes) {
  return answer_to(
      CUBFC_CALLER,
      [&](Process& p) {
        return p.allocations().allocate_pitch(address, pitch, width, height, element_bytes);
      },
      &Functions::cuMemAllocPitch_v2, address, pitch, width, height, element_bytes);
}

CUresult cubfc_cuMemFree_v2(CUdeviceptr address) {
  if (Process* const process = Process::active(); process != nullptr) [[likely]] {
    const auto freed = process->frees().free_at_hand(address);
    if (freed != arena::Arena::Gathered::kNot) [[likely]] {
      return freed == arena::Arena::Gathered::kFull ? tidy_frees(*process) : CUDA_SUCCESS;
    }
  }
  return answer(
      [&](Process& p) {
        const CUresult result = p.frees().free(address);
        if (result == CUDA_SUCCESS) {
          p.graph_memory().freed(address);
        }
        return result;
      },
      &Functions::cuMemFree_v2, address);
}

CUresult cubfc_cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
  return answer_to(
      CUBFC_CALLER,
      [&](Process& p) { return p.allocations().allocate_managed(address, bytes, flags); },
      &Functions::cuMemAllocManaged, address, bytes, flags);
}

CUresult cubfc_cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                           const CUmemAllocationProp* properties, unsigned long long flags) {
  return answer_to(
      CUBFC_CALLER,
      [&](Process& p) { return p.physical().create(handle, bytes, properties, flags); },
      &Functions::cuMemCreate, handle, bytes, properties, flags);
}

CUresult cubfc_cuMemRelease(CUmemGenericAllocationHandle handle) {
  return answer([&](Process& p) { return p.physical().release(handle); }, &Functions::cuMemRelease,
                handle);
}

CUresult cubfc_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return answer([&](Process& p) { return p.physical().map(address, bytes, offset, handle, flags); },
                &Functions::cuMemMap, address, bytes, offset, handle, flags);
}

CUresult cubfc_cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return answer([&](Process& p) { return p.physical().unmap(address, bytes); },
                &Functions::cuMemUnmap, address, bytes);
}

CUresult cubfc_cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* shape) {
  return answer_to(
      CUBFC_CALLER, [&](Process& p) { return p.arrays().create(array, shape); },
      &Functions::cuArrayCreate_v2, array, shape);
}

CUresult cubfc_cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  return answer_to(
      CUBFC_CALLER, [&](Process& p) { return p.arrays().create_3d(array, shape); },
      &Functions::cuArray3DCreate_v2, array, shape);
}

CUresult cubfc_cuArrayDestroy(CUarray array) {
  return answer([&](Process& p) { return p.arrays().destroy(array); }, &Functions::cuArrayDestroy,
                array);
}

CUresult cubfc_cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape,
                                      unsigned levels) {
  return answer_to(
      CUBFC_CALLER, [&](Process& p) { return p.arrays().create_mipmapped(array, shape, levels); },
      &Functions::cuMipmappedArrayCreate, array, shape, levels);
}

CUresult cubfc_cuMipmappedArrayDestroy(CUmipmappedArray array) {
  return answer([&](Process& p) { return p.arrays().destroy_mipmapped(array); },
                &Functions::cuMipmappedArrayDestroy, array);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
