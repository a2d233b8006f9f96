#include "shim/serve/region_memory.h"

#include "shim/driver/captures.h"
#include "shim/tell/log.h"

namespace cubfc {

arena::MemorySource::Region RegionMemory::obtain(std::uint64_t bytes) noexcept {
  if (!device_.limit.pools.refresh()) {
    return {0, CUDA_ERROR_OUT_OF_MEMORY, true};
  }
  const RelaxedCapture relaxed(driver_);
  if (policy_.reserve.value > 0 && !device_.managed) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
        bytes > policy_.beyond_reserve(free_bytes)) {
      return {0, CUDA_ERROR_OUT_OF_MEMORY, true};
    }
  }
  CUdeviceptr base = 0;
  const CUresult result = device_.managed
                              ? driver_.cuMemAllocManaged(&base, bytes, CU_MEM_ATTACH_GLOBAL)
                              : driver_.cuMemAlloc_v2(&base, bytes);
  log::debug("region of {}: driver says {}", log::bytes(bytes), name_of(driver_, result));
  if (result != CUDA_SUCCESS) {
    return {0, static_cast<int>(result), result == CUDA_ERROR_OUT_OF_MEMORY};
  }
  called();
  return {base, 0, false};
}

void RegionMemory::release(arena::Address base, std::uint64_t bytes) noexcept {
  const RelaxedCapture relaxed(driver_);
  const CUresult result = driver_.cuMemFree_v2(base);
  called();
  log::debug("region of {} given back: driver says {}", log::bytes(bytes),
             name_of(driver_, result));
}

}  // namespace cubfc
