#include "shim/servers/pool_creation.h"

#include <algorithm>
#include <limits>
#include <new>

#include "shim/driver/physical.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

// A pool is not warmed with less.
constexpr std::uint64_t kLeastWarmBytes = std::uint64_t{1} << 20;

// Headers before CUDA 12.2 lack this field.
template <typename Properties>
void set_most(Properties& properties, std::uint64_t bytes) {
  if constexpr (requires { properties.maxSize; }) {
    properties.maxSize = bytes;
  }
}

// Headers before CUDA 12.8 lack this field.
template <typename Properties>
void set_usage(Properties& properties, unsigned short usage) {
  if constexpr (requires { properties.usage; }) {
    properties.usage = usage;
  }
}

}  // namespace

CUresult create_pool(const DriverFunctions& driver, const Device& device,
                     CUmemoryPool& pool) noexcept {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.handle;
  if (decompresses(driver, device.handle)) {
    set_usage(properties, kForDecompression);
  }
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (const std::uint64_t most = device.limit.budget.highest(); most != arena::Budget::kUnlimited) {
    set_most(properties, most);
    result = driver.cuMemPoolCreate(&pool, &properties);
  }
  if (result == CUDA_ERROR_INVALID_VALUE) {  // no limit, or the driver takes no maxSize
    set_most(properties, 0);
    result = driver.cuMemPoolCreate(&pool, &properties);
  }
  if (result != CUDA_SUCCESS) {
    return result;
  }
  cuuint64_t keeps_all = std::numeric_limits<cuuint64_t>::max();
  int no = 0;
  driver.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keeps_all);
  result =
      driver.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no);
  if (result != CUDA_SUCCESS) {
    driver.cuMemPoolDestroy(pool);
  }
  return result;
}

std::uint64_t warm_pool(const DriverFunctions& driver, const config::Policy& policy,
                        const Device& device, CUmemoryPool pool, CUstream stream) noexcept {
  const std::int64_t asked = policy.async_preallocate.value;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (asked == 0 || driver.cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
    return 0;
  }
  const std::uint64_t wanted = asked < 0
                                   ? policy.preallocation(free_bytes, total_bytes, device.handle)
                                   : static_cast<std::uint64_t>(asked);
  std::uint64_t bytes =
      std::min({wanted, device.limit.budget.left(), policy.beyond_reserve(free_bytes)});
  CUdeviceptr all = 0;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  while (bytes >= kLeastWarmBytes && result == CUDA_ERROR_OUT_OF_MEMORY) {
    result = driver.cuMemAllocFromPoolAsync(&all, bytes, pool, stream);
    bytes -= result == CUDA_SUCCESS ? 0 : bytes / 10;
  }
  if (result == CUDA_SUCCESS) {
    result = driver.cuMemFreeAsync(all, stream);
    driver.cuStreamSynchronize(stream);
  }
  const std::uint64_t warmed = result == CUDA_SUCCESS ? bytes : 0;
  const bool done = result == CUDA_SUCCESS && bytes == wanted;
  try {
    log::at(
        done ? log::Level::kInfo : log::Level::kWarn, "GPU {}: the pool is warmed with {}{}",
        device.handle, log::bytes(warmed),
        done ? "" : format(" of {}: the device, or the limit, has not more", log::bytes(wanted)));
  } catch (const std::bad_alloc&) {  // the line is left out
  }
  return warmed;
}

}  // namespace cubfc
