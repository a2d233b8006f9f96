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

TEST_CASE("reported: a reservation of an odd size, of none or of an odd alignment is refused") {
  const Device device;
  CUdeviceptr range = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4096}, kPhysical + 1}) {
    CHECK(cuMemAddressReserve(&range, bytes, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(cuMemAddressReserve(&range, kPhysical, 3, 0, 0) == CUDA_ERROR_INVALID_VALUE);
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
  CHECK(cuMemAddressFree(range, kPhysical) == CUDA_SUCCESS);
  CHECK(cuMemUnmap(range, kPhysical) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemMap(range, kPhysical, 0, physical, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemRelease(physical) == CUDA_SUCCESS);
}

TEST_CASE("a handle is mapped whole, and what is mapped is unmapped and given access as a whole") {
  const Device device;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle physical = 0;
  CUdeviceptr range = 0;
  Must(cuMemCreate(&physical, 2 * kPhysical, &properties, 0));
  Must(cuMemAddressReserve(&range, 4 * kPhysical, 0, 0, 0));
  CHECK(cuMemMap(range, kPhysical, 0, physical, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemMap(range, kPhysical, kPhysical, physical, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemMap(range, 3 * kPhysical, 0, physical, 0) == CUDA_ERROR_NOT_SUPPORTED);
  Must(cuMemMap(range, 2 * kPhysical, 0, physical, 0));
  CHECK(cuMemSetAccess(range, kPhysical, &access, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(range + kPhysical, kPhysical, &access, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(range, 4 * kPhysical, &access, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemSetAccess(range, 2 * kPhysical, &access, 1) == CUDA_SUCCESS);
  unsigned on = 1;
  CHECK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, range) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuMemUnmap(range, kPhysical) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(range + kPhysical, kPhysical) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemUnmap(range, 4 * kPhysical) == CUDA_SUCCESS);  // half of it is not mapped
  CHECK(cuMemUnmap(range, 4 * kPhysical) == CUDA_SUCCESS);  // and then all of it
  CHECK(cuMemAddressFree(range, 4 * kPhysical) == CUDA_SUCCESS);
  CHECK(cuMemRelease(physical) == CUDA_SUCCESS);
}

TEST_CASE("reported: a handle is released once, and none is imported of a file that there is not") {
  const Device device;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  Must(cuMemCreate(&handle, kPhysical, &properties, 0));
  Must(cuMemRelease(handle));
  CHECK(cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(-1),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ==
        CUDA_ERROR_INVALID_DEVICE);
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
