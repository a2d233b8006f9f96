#include "shim/driver/physical.h"

#include <bit>

namespace cubfc {

CUmemAllocationProp physical_memory_of(const DriverFunctions& driver, CUdevice device) noexcept {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  int rdma = 0;
  if (driver.cuDeviceGetAttribute(&rdma,
                                  CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                                  device) == CUDA_SUCCESS &&
      rdma != 0) {
    properties.allocFlags.gpuDirectRDMACapable = 1;
  }
  return properties;
}

bool decompresses(const DriverFunctions& driver, CUdevice device) noexcept {
  // CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK
  constexpr auto kAlgorithms = static_cast<CUdevice_attribute>(136);
  int algorithms = 0;
  return driver.cuDeviceGetAttribute(&algorithms, kAlgorithms, device) == CUDA_SUCCESS &&
         algorithms != 0;
}

std::uint64_t physical_granularity(const DriverFunctions& driver, CUdevice device) noexcept {
  int supported = 0;
  std::size_t granularity = 0;
  const bool has_functions = driver.cuMemCreate != nullptr && driver.cuMemRelease != nullptr &&
                             driver.cuMemGetAllocationGranularity != nullptr;
  if (!has_functions ||
      driver.cuDeviceGetAttribute(&supported,
                                  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                  device) != CUDA_SUCCESS ||
      supported == 0) {
    return 0;
  }
  const CUmemAllocationProp properties = physical_memory_of(driver, device);
  const CUresult result = driver.cuMemGetAllocationGranularity(&granularity, &properties,
                                                               CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  return result == CUDA_SUCCESS && granularity > 0 ? std::bit_ceil(granularity) : 0;
}

}  // namespace cubfc
