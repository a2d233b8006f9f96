// What is reported of real drivers about memory that is mapped by the program: reserved addresses,
// physical memory, access.
#include <cuda.h>

#include <array>

#include "reported_test.h"

using namespace standin_test;

TEST_CASE("reported: physical memory comes in units of 2 MiB") {
  const Device device;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  std::size_t bytes = 0;
  CHECK(cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
        CUDA_SUCCESS);
  CHECK(bytes == 2 * kMebibyte);
}

TEST_CASE(
    "reported: a reservation of an odd size, of none or of an odd alignment is out of memory") {
  const Device device;
  CUdeviceptr range = 0;
  CHECK(cuMemAddressReserve(&range, kPhysical + 1, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAddressReserve(&range, 0, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAddressReserve(&range, kPhysical, 3, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAddressReserve(nullptr, kPhysical, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("reported: only addresses that were reserved are mapped, and only mapped ones unmapped") {
  const Device device;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle physical = 0;
  CUdeviceptr range = 0;
  Must(cuMemCreate(&physical, kPhysical, &properties, 0));
  Must(cuMemAddressReserve(&range, kPhysical, 0, 0, 0));
  CHECK(cuMemUnmap(range, kPhysical) == CUDA_ERROR_INVALID_VALUE);  // nothing is mapped there
  CHECK(cuMemAddressFree(range, kPhysical) == CUDA_SUCCESS);
  CHECK(cuMemMap(range, kPhysical, 0, physical, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemRelease(physical) == CUDA_SUCCESS);
}

TEST_CASE("reported: access is not given to a device that there is not") {
  const Device device;
  const MappedMemory memory;
  CHECK(memory.Give(77, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) == CUDA_ERROR_INVALID_VALUE);
  CHECK(memory.Give(-1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("reported: a copy to mapped memory is refused without access, or with that of a reader") {
  const Device device;
  const MappedMemory memory;
  std::array<char, 512> host{};
  CHECK(cuMemcpyHtoD_v2(memory.address(), host.data(), 512) == CUDA_ERROR_INVALID_VALUE);
  Must(memory.Give(0, CU_MEM_ACCESS_FLAGS_PROT_READ));
  CHECK(cuMemcpyHtoD_v2(memory.address(), host.data(), 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoH_v2(host.data(), memory.address(), 512) == CUDA_SUCCESS);
  Must(memory.Give(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  CHECK(cuMemcpyHtoD_v2(memory.address(), host.data(), 512) == CUDA_SUCCESS);
}

TEST_CASE("reported: cuMemUnmap does not wait for work") {
  const Device device;
  MappedMemory memory;
  const HeldWork work(device.Allocate(512));
  CHECK(work.IsNotWaitedForBy(device.context(), [&] { return memory.Unmap(); }));
}
