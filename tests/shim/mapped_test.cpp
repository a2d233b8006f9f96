// CUBFC_ALLOCATOR=vmm under a limit of 16 MiB, on two devices that can reach each other.
#include "shim/cubfc.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kMiB = 1 << 20;

bool has_access(int device, CUdeviceptr address) {
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  unsigned long long flags = 0;
  must(cuMemGetAccess(&flags, &location, address));
  return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

}  // namespace

TEST_CASE("a limit that is much less than the device can be used to its end") {
  const TestContext context;
  std::size_t free_bytes = 0;
  must(cuMemGetInfo(&free_bytes, nullptr));
  CHECK(free_bytes == 16 * kMiB);
  must(cuMemFree(allocate(free_bytes)));
  const CUdeviceptr small = allocate(1000);
  must(cuMemGetInfo(&free_bytes, nullptr));
  must(cuMemFree(allocate(free_bytes - 2 * kMiB)));
  must(cuMemFree(small));
  verify_arenas();
}

TEST_CASE("the device is asked once what its pages are to be, and not for each") {
  const TestContext context;
  cubfc_trim(CUBFC_TRIM_PREALLOCATED);  // pages that other tests left are used again
  const std::uint64_t asked = standin_calls("cuDeviceGetAttribute");
  const std::uint64_t created = standin_calls("cuMemCreate");
  const CUdeviceptr block = allocate(10 * kMiB);
  CHECK(standin_calls("cuMemCreate") - created >= 5);
  CHECK(standin_calls("cuDeviceGetAttribute") - asked < 5);
  must(cuMemFree(block));
}

TEST_CASE("a device of which the process has a context may use what there was and what comes") {
  const TestContext owner(0);
  const CUdeviceptr before = allocate(3 * kMiB);
  const TestContext peer(1);
  CHECK(has_access(1, before));
  must(cuCtxSetCurrent(owner.handle));
  const CUdeviceptr after = allocate(5 * kMiB);
  CHECK(has_access(1, after));
  // The program's own permission changes nothing about it.
  must(cuCtxSetCurrent(peer.handle));
  must(cuCtxEnablePeerAccess(owner.handle, 0));
  must(cuCtxDisablePeerAccess(owner.handle));
  CHECK(has_access(1, before));
  CHECK(has_access(1, after));
  CHECK(has_access(0, allocate(3 * kMiB)));
  must(cuCtxSetCurrent(owner.handle));
  CHECK(has_access(0, before));
  must(cuMemsetD8(before, 1, 3 * kMiB));
}

TEST_CASE("memory that other devices cannot be given access to serves its own") {
  const TestContext peer(1);
  const TestContext owner(0);
  standin_fail("cuMemSetAccess", CUDA_ERROR_INVALID_DEVICE, 0, 1);
  const CUdeviceptr block = allocate(3 * kMiB);
  CHECK(has_access(0, block));
  must(cuMemsetD8(block, 1, 3 * kMiB));
  must(cuMemFree(block));
  verify_arenas();
}
