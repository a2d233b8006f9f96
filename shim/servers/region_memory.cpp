#include "shim/servers/region_memory.h"

#include "shim/driver/relaxed_capture.h"
#include "shim/servers/preallocated.h"
#include "shim/tell/log.h"

namespace cubfc {

arena::MemorySource::Region RegionMemory::obtain(std::uint64_t bytes) noexcept {
  if (!device_.limit.pools.refresh()) {
    return {0, CUDA_ERROR_OUT_OF_MEMORY, true};
  }
  const RelaxedCapture relaxed(driver_);
  CUdeviceptr base = 0;
  const CUresult result = allocate(&base, bytes);
  log::debug("region of {}: driver says {}", log::bytes(bytes), name_of(driver_, result));
  if (result != CUDA_SUCCESS) {
    return {0, static_cast<int>(result), result == CUDA_ERROR_OUT_OF_MEMORY};
  }
  return {base, 0, false};
}

CUresult RegionMemory::allocate(CUdeviceptr* base, std::uint64_t bytes) noexcept {
  if (device_.managed) {
    device_.use.driver_called();
    return device_.host_reserve_allows(bytes)
               ? driver_.cuMemAllocManaged(base, bytes, CU_MEM_ATTACH_GLOBAL)
               : CUDA_ERROR_OUT_OF_MEMORY;
  }
  return in_place_of_preallocated(driver_, device_, bytes, 0, [&] {
    device_.use.driver_called();
    return driver_.cuMemAlloc_v2(base, bytes);
  });
}

// No work uses the regions, so giving them back needs no wait for work. cuMemFree would wait, so
// cuMemFreeAsync frees the regions, in a stream in which nothing else is done. cuMemFree frees
// those that cuMemFreeAsync refuses.
void RegionMemory::release(std::span<const Extent> regions) noexcept {
  const RelaxedCapture relaxed(driver_);
  CUstream stream = nullptr;
  const bool in_stream =
      !release_waits_ && driver_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
  for (const auto& [base, bytes] : regions) {
    CUresult result = in_stream ? driver_.cuMemFreeAsync(base, stream) : CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_SUCCESS) {
      release_waits_ = release_waits_ || (in_stream && result == CUDA_ERROR_NOT_SUPPORTED);
      result = driver_.cuMemFree_v2(base);
    }
    device_.use.driver_called();
    log::debug("region of {} given back: driver says {}", log::bytes(bytes),
               name_of(driver_, result));
  }
  if (in_stream) {
    // Wait until the device has the regions, since the caller requests memory next. Wait once more
    // if an error of other work has cut the first wait short.
    if (driver_.cuStreamSynchronize(stream) != CUDA_SUCCESS) {
      driver_.cuStreamSynchronize(stream);
    }
    driver_.cuStreamDestroy_v2(stream);
  }
}

}  // namespace cubfc
