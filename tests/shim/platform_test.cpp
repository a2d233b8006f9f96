// With the allocator `platform` every call goes to the driver, under the limit.
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "shim/test_context.h"

using namespace cubfc::test;

TEST_CASE("threads that allocate and free at the driver leave nothing on the limit's account") {
  const TestContext context;
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&] {
      cuCtxSetCurrent(context.handle);
      for (int i = 0; i < 2000; ++i) {
        CUdeviceptr block = 0;
        if (cuMemAlloc(&block, 1 << 20) != CUDA_SUCCESS) {
          ++failed;  // eight times 1 MiB always fit
        } else if (i % 4 == 0) {
          cuMemFreeAsync(block, nullptr);
        } else {
          cuMemFree(block);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(failed == 0);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  must(cuMemGetInfo(&free_bytes, &total_bytes));
  CHECK(free_bytes == 64 << 20);
  CHECK(total_bytes == 64 << 20);
}

TEST_CASE("the limit holds at the driver, and a freed allocation counts no more") {
  const TestContext context;
  const CUdeviceptr block = allocate(60 << 20);
  CUdeviceptr more = 0;
  CHECK(cuMemAlloc(&more, 5 << 20) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAlloc(&more, 4 << 20) == CUDA_SUCCESS);
  must(cuMemFree(block));
  CHECK(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
  must(cuMemFree(allocate(60 << 20)));
}

TEST_CASE("a context's end gives its allocations back to the limit") {
  must(cuInit(0));
  CUdevice device = 0;
  must(cuDeviceGet(&device, 0));
  for (int round = 0; round < 5; ++round) {
    CUcontext context = nullptr;
    must(cuCtxCreate_v2(&context, 0, device));
    allocate(50 << 20);
    must(cuCtxDestroy_v2(context));
  }
}

TEST_CASE("the limit holds also when the driver cannot tell what is free") {
  const TestContext context;
  standin_fail("cuMemGetInfo_v2", CUDA_ERROR_UNKNOWN, 0, 1);
  CUdeviceptr block = 0;
  CHECK(cuMemAlloc(&block, 200 << 20) == CUDA_ERROR_OUT_OF_MEMORY);
  standin_fail("cuMemGetInfo_v2", 0, 0, 0);
  CHECK(cuMemAlloc(&block, 200 << 20) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAlloc(&block, 20 << 20) == CUDA_SUCCESS);
}

TEST_CASE("a stream-ordered allocation counts on the device of its stream") {
  const TestContext first(0);
  const TestContext second(1);
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuCtxSetCurrent(first.handle));
  CUdeviceptr block = 0;
  CUdeviceptr more = 0;
  must(cuMemAllocAsync(&block, 40 << 20, stream));
  CHECK(cuMemAllocAsync(&more, 40 << 20, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  must(cuMemFree(allocate(60 << 20)));
  must(cuMemFreeAsync(block, stream));
  must(cuMemAllocAsync(&block, 60 << 20, stream));
  must(cuMemFreeAsync(block, stream));
}

TEST_CASE("the limit counts memory of every kind") {
  const TestContext context;
  constexpr std::size_t kMiB = 1 << 20;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr block = 0;
  must(cuMemCreate(&handle, 30 * kMiB, &properties, 0));
  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR shape{1024, 20UL * 1024, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  must(cuArrayCreate(&array, &shape));
  CHECK(cuMemAlloc(&block, 20 * kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAllocAsync(&block, 20 * kMiB, nullptr) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAllocManaged(&block, 20 * kMiB, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_OUT_OF_MEMORY);
  CUmemGenericAllocationHandle other = 0;
  CHECK(cuMemCreate(&other, 20 * kMiB, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CUarray another = nullptr;
  CHECK(cuArrayCreate(&another, &shape) == CUDA_ERROR_OUT_OF_MEMORY);
  std::size_t free_bytes = 0;
  must(cuMemGetInfo(&free_bytes, nullptr));
  CHECK(free_bytes == 14 * kMiB);
  must(cuMemRelease(handle));
  must(cuArrayDestroy(array));
  must(cuMemFree(allocate(60 * kMiB)));
}

TEST_CASE("a context that does not end takes nothing off the limit's account") {
  const TestContext context;
  CUdeviceptr block = 0;
  CUdeviceptr more = 0;
  must(cuMemAllocAsync(&block, 40 << 20, nullptr));
  CHECK(cuCtxDestroy_v2(nullptr) != CUDA_SUCCESS);
  must(cuDevicePrimaryCtxReset_v2(1));  // it was never used
  CHECK(cuMemAllocAsync(&more, 40 << 20, nullptr) == CUDA_ERROR_OUT_OF_MEMORY);
  must(cuMemFreeAsync(block, nullptr));
  must(cuMemAllocAsync(&more, 60 << 20, nullptr));
  must(cuMemFreeAsync(more, nullptr));
}

TEST_CASE("what graphs keep and do not use is given back, and then a request is served") {
  const TestContext context;
  CUstream stream = nullptr;
  CUdeviceptr of_graph = 0;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  must(cuMemAllocAsync(&of_graph, 40 << 20, stream));
  must(cuMemFreeAsync(of_graph, stream));
  must(cuStreamEndCapture(stream, &graph));
  must(cuGraphInstantiateWithFlags(&exec, graph, 0));
  must(cuGraphLaunch(exec, stream));
  must(cuStreamSynchronize(stream));
  CHECK(standin_live_bytes(0) == 40 << 20);
  CUdeviceptr block = 0;
  CHECK(cuMemAlloc(&block, 50 << 20) == CUDA_SUCCESS);
  CHECK(standin_live_bytes(0) == 50 << 20);
  must(cuMemFree(block));
  must(cuGraphExecDestroy(exec));
  must(cuGraphDestroy(graph));
}

TEST_CASE("a pool that serves several streams exceeds the limit for no longer than a call") {
  const TestContext context;
  constexpr std::uint64_t kMiB = 1 << 20;
  CUmemoryPool pool = nullptr;
  must(cuDeviceGetDefaultMemPool(&pool, 0));
  const auto reserved = [&](CUmemPool_attribute attribute) {
    cuuint64_t bytes = 0;
    must(cuMemPoolGetAttribute(pool, attribute, &bytes));
    return bytes;
  };
  std::array<CUstream, 3> streams{};
  for (CUstream& stream : streams) {
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  for (const std::size_t used : {1U, 3U}) {
    cuuint64_t none = 0;
    must(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &none));
    for (std::size_t i = 0; i < 24; ++i) {
      CUstream const stream = streams.at(i % used);
      CUdeviceptr block = 0;
      must(cuMemAllocAsync(&block, 20 * kMiB, stream));
      CHECK(reserved(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) <= 64 * kMiB);
      const auto work = [](void* /*nothing*/) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      };
      must(cuLaunchHostFunc(stream, work, nullptr));
      must(cuMemFreeAsync(block, stream));
    }
    const std::uint64_t most = reserved(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
    INFO(used << " streams, " << most / kMiB << " MiB");
    CHECK(most <= (used == 1 ? 64 : 64 + 20) * kMiB);  // a stream gets again what it freed
    must(cuCtxSynchronize());
  }
  for (CUstream const stream : streams) {
    must(cuStreamDestroy_v2(stream));
  }
}
