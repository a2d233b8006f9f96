// What becomes of a driver call's failure where more is to be expected than an error: that each
// call may fail is for fail_each_call.py.
#include "shim/test_context.h"

using namespace cubfc::test;

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
