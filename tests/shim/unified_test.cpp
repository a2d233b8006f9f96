// CUBFC_UNIFIED_MEMORY with twice the device as the limit: more than the device has can be had.
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kMiB = 1 << 20;

}  // namespace

TEST_CASE("more than the device has can be had, to the limit") {
  const TestContext context;
  CUdeviceptr first = allocate(200 * kMiB);
  const CUdeviceptr second = allocate(200 * kMiB);
  must(cuMemsetD8(first, 1, 200 * kMiB));
  must(cuMemsetD8(second, 2, 200 * kMiB));
  must(cuCtxSynchronize());
  CHECK(read(first + 199 * kMiB, 100) == std::vector<unsigned char>(100, 1));
  CHECK(read(second, 100) == std::vector<unsigned char>(100, 2));
  CUdeviceptr third = 0;
  CHECK(cuMemAlloc(&third, 200 * kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  must(cuMemFree(first));
  must(cuMemAlloc(&first, 190 * kMiB));
  must(cuMemFree(first));
  must(cuMemFree(second));
  CHECK(cuMemFree(second) == CUDA_ERROR_INVALID_VALUE);
  must(cuMemFree(allocate(400 * kMiB)));
  verify_arenas();
}

TEST_CASE("managed blocks are blocks, and say that they are managed") {
  const TestContext context;
  const CUdeviceptr block = allocate(5000);
  unsigned managed = 0;
  must(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, block));
  CHECK(managed == 1);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  must(cuMemGetAddressRange(&base, &bytes, block + 100));
  CHECK(base == block);
  CHECK(bytes == 5000);
  CUipcMemHandle handle{};
  CHECK(cuIpcGetMemHandle(&handle, block) == CUDA_ERROR_INVALID_VALUE);
  must(cuMemFree(block));
}
