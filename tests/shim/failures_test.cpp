// The driver fails at every call in turn: the program gets an error, nothing is lost, and what
// comes after works.
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

// What a small program does; returns the first error.
CUresult small_program() {
  CUdeviceptr a = 0;
  CUdeviceptr b = 0;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  CUdeviceptr base = 0;
  CUresult result = cuMemGetInfo(&free_bytes, &total_bytes);
  const auto then = [&](CUresult next) { result = result == CUDA_SUCCESS ? next : result; };
  then(cuMemAlloc(&a, 1000));
  then(cuMemAlloc(&b, 100 << 20));
  if (a != 0) {
    then(cuMemGetAddressRange(&base, nullptr, a));
    then(cuMemFree(a));
    cuMemFree(a);  // a free that failed has not happened
  }
  if (b != 0) {
    then(cuMemFree(b));
    cuMemFree(b);
  }
  return result;
}

}  // namespace

TEST_CASE("a driver call that fails is an error of the program's call and no more") {
  const char* const functions[] = {"cuMemAlloc_v2",
                                   "cuMemFree_v2",
                                   "cuMemGetInfo_v2",
                                   "cuMemAddressReserve",
                                   "cuMemCreate",
                                   "cuMemMap",
                                   "cuMemSetAccess",
                                   "cuMemUnmap",
                                   "cuMemRelease",
                                   "cuMemGetAllocationGranularity",
                                   "cuCtxGetCurrent",
                                   "cuCtxGetId",
                                   "cuCtxGetDevice",
                                   "cuCtxSynchronize",
                                   "cuMemGetAddressRange_v2",
                                   "cuDeviceTotalMem_v2",
                                   "cuDeviceGetName",
                                   "cuDevicePrimaryCtxGetState",
                                   "cuDevicePrimaryCtxRetain",
                                   "cuDevicePrimaryCtxRelease_v2",
                                   "cuCtxPushCurrent_v2",
                                   "cuDriverGetVersion"};
  for (const char* function : functions) {
    for (const int error :
         {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_UNKNOWN}) {
      for (std::uint64_t call = 0; call < 6; ++call) {
        INFO(function << " fails with " << error << " at call " << call);
        const TestContext context;
        REQUIRE(standin_fail(function, error, call, 1) == 1);
        small_program();
        standin_fail(function, 0, 0, 0);
        verify_arenas();
        // The failure is over: the same context serves.
        CHECK(small_program() == CUDA_SUCCESS);
        verify_arenas();
      }
    }
  }
}

TEST_CASE("an error of earlier work is reported by the free, which then has not happened",
          "[sync]") {
  const TestContext context;
  const CUdeviceptr block = allocate(4096);
  standin_fail("cuCtxSynchronize", CUDA_ERROR_ILLEGAL_ADDRESS, 0, 1);
  CHECK(cuMemFree(block) == CUDA_ERROR_ILLEGAL_ADDRESS);
  standin_fail("cuCtxSynchronize", 0, 0, 0);
  CUdeviceptr base = 0;
  must(cuMemGetAddressRange(&base, nullptr, block));
  CHECK(base == block);
  CHECK(cuMemFree(block) == CUDA_SUCCESS);
}

TEST_CASE("when the device is full, free regions are given back and the call is tried again") {
  const TestContext context;
  std::vector<CUdeviceptr> blocks;
  CUdeviceptr block = 0;
  while (cuMemAlloc(&block, 10 << 20) == CUDA_SUCCESS) {
    blocks.push_back(block);
  }
  REQUIRE(blocks.size() > 20);
  for (const CUdeviceptr each : blocks) {
    must(cuMemFree(each));
  }
  CHECK(cuMemAlloc(&block, 240 << 20) == CUDA_SUCCESS);
  must(cuMemFree(block));
}
