// CUBFC_ALLOCATOR=cuda_async under a limit of 64 MiB, warmed with 16 MiB; and what the program's
// own pools and graphs take of the limit. On two devices that can reach each other.
#include <atomic>
#include <limits>
#include <thread>

#include "shim/own_pool.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kLimit = 64 * kMiB;

cubfc::Device& device(int ordinal = 0) {
  return *cubfc::Process::active()->contexts().device(ordinal);
}

std::size_t free_bytes() {
  std::size_t bytes = 0;
  must(cuMemGetInfo(&bytes, nullptr));
  return bytes;
}

// A pool of the program's that gives nothing back by itself.
struct HoardingPool {
  HoardingPool() {
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    must(cuMemPoolCreate(&pool, &properties));
    cuuint64_t all = std::numeric_limits<cuuint64_t>::max();
    must(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
  }
  ~HoardingPool() { cuMemPoolDestroy(pool); }
  HoardingPool(const HoardingPool&) = delete;
  HoardingPool& operator=(const HoardingPool&) = delete;

  CUmemoryPool pool = nullptr;
};

CUresult create_physical(std::size_t bytes, CUmemGenericAllocationHandle* handle) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return cuMemCreate(handle, bytes, &properties, 0);
}

}  // namespace

TEST_CASE("the pool is made and warmed by the first allocation, and goes with the last context") {
  {
    const TestContext context;
    CHECK(standin_live_bytes(0) == 0);
    allocate(512);
    CHECK(standin_live_bytes(0) == 16 * kMiB);
    allocate(10 * kMiB);
    CHECK(standin_live_bytes(0) == 16 * kMiB);
    CHECK(free_bytes() == kLimit - 10 * kMiB - 512);
    allocate(10 * kMiB);  // left behind
    CHECK(standin_live_bytes(0) == 20 * kMiB + 512);
  }
  CHECK(standin_live_bytes(0) == 0);
  CHECK(device().budget.used() == 0);
}

TEST_CASE("the limit is the most that can be had, again and again") {
  const TestContext context;
  CHECK(free_bytes() == kLimit);
  for (int i = 0; i < 3; ++i) {
    const CUdeviceptr most = allocate(kLimit);
    CUdeviceptr more = 0;
    CHECK(free_bytes() == 0);
    CHECK(cuMemAlloc(&more, 1) == CUDA_ERROR_OUT_OF_MEMORY);
    must(cuMemFree(most));
    must(cuMemFree(allocate(kLimit - kMiB)));
    CHECK(free_bytes() == kLimit);
  }
  CHECK(standin_peak_bytes(0) == kLimit);
}

TEST_CASE("what the pool keeps is there for others, and counts as long as it is kept") {
  const TestContext context;
  must(cuMemFree(allocate(60 * kMiB)));
  CHECK(standin_live_bytes(0) == 60 * kMiB);
  device().count_pools();
  CHECK(device().budget.used() == 60 * kMiB);
  CUmemGenericAllocationHandle handle = 0;
  must(create_physical(40 * kMiB, &handle));
  CHECK(standin_live_bytes(0) <= kLimit);
  CUdeviceptr more = 0;
  CHECK(cuMemAlloc(&more, 30 * kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  must(cuMemFree(allocate(24 * kMiB)));
  must(cuMemRelease(handle));
}

TEST_CASE("what the program's own pool keeps counts, and is given back before a request fails") {
  const TestContext context;
  const HoardingPool hoarding;
  CUdeviceptr block = 0;
  must(cuMemAllocFromPoolAsync(&block, 40 * kMiB, hoarding.pool, nullptr));
  CUdeviceptr more = 0;
  CHECK(cuMemAllocFromPoolAsync(&more, 30 * kMiB, hoarding.pool, nullptr) ==
        CUDA_ERROR_OUT_OF_MEMORY);
  must(cuMemFreeAsync(block, nullptr));
  must(cuCtxSynchronize());
  CHECK(free_bytes() == 24 * kMiB);
  must(cuMemAllocFromPoolAsync(&block, 40 * kMiB, hoarding.pool, nullptr));  // what it kept
  CHECK(free_bytes() == 24 * kMiB);
  must(cuMemFree(block));
  must(cuMemFree(allocate(60 * kMiB)));
  CHECK(device().pools.reserved() <= kLimit);
  CHECK(device().budget.used() <= kLimit);
}

TEST_CASE("the memory of graphs counts") {
  const TestContext context;
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUdeviceptr in_graph = 0;
  must(cuMemAllocAsync(&in_graph, 40 * kMiB, stream));
  must(cuMemFreeAsync(in_graph, stream));
  CUgraph graph = nullptr;
  must(cuStreamEndCapture(stream, &graph));
  CHECK(free_bytes() <= 24 * kMiB);
  CUdeviceptr block = 0;
  CHECK(cuMemAlloc(&block, 30 * kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  must(cuMemFree(allocate(20 * kMiB)));
  must(cuGraphDestroy(graph));
}

TEST_CASE("a block is ready for every stream, and is freed by any function and any context") {
  const TestContext context;
  CUcontext other = nullptr;
  must(cuCtxCreate_v2(&other, 0, 0));
  must(cuCtxSetCurrent(context.handle));
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const CUdeviceptr block = allocate(kMiB);
  must(cuMemsetD8Async(block, 7, kMiB, stream));
  must(cuStreamSynchronize(stream));
  CHECK(read(block, kMiB) == std::vector<unsigned char>(kMiB, 7));
  must(cuMemFreeAsync(block, stream));
  CHECK(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr second = allocate(kMiB);
  CHECK(cuMemFree(second + 512) == CUDA_ERROR_INVALID_VALUE);
  must(cuCtxSetCurrent(other));
  must(cuMemFree(second));
  CHECK(cuMemFree(second) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeAsync(second, nullptr) != CUDA_SUCCESS);
  must(cuCtxDestroy_v2(other));
  must(cuCtxSetCurrent(context.handle));
}

TEST_CASE("a context that ends leaves nothing, and another's blocks stay") {
  const TestContext context;
  const CUdeviceptr kept = allocate(4096);
  must(cuMemsetD8(kept, 3, 4096));
  CUcontext other = nullptr;
  must(cuCtxCreate_v2(&other, 0, 0));
  const CUdeviceptr lost = allocate(30 * kMiB);
  must(cuCtxDestroy_v2(other));
  CHECK(cuMemFree(lost) != CUDA_SUCCESS);
  must(cuCtxSetCurrent(context.handle));
  CHECK(free_bytes() == kLimit - 4096);
  must(cuMemFree(allocate(60 * kMiB)));
  CHECK(read(kept, 4096) == std::vector<unsigned char>(4096, 3));
}

TEST_CASE("a peer is given access to the pool, whichever comes first") {
  const TestContext owner(0);
  const TestContext peer(1);
  standin_reset_calls();
  must(cuCtxEnablePeerAccess(owner.handle, 0));
  CHECK(standin_calls("cuMemPoolSetAccess") == 0);  // there is no pool yet
  must(cuCtxSetCurrent(owner.handle));
  allocate(512);
  CHECK(standin_calls("cuMemPoolSetAccess") == 1);
  must(cuCtxEnablePeerAccess(peer.handle, 0));
  CHECK(standin_calls("cuMemPoolSetAccess") == 1);
  must(cuCtxSetCurrent(peer.handle));
  allocate(512);
  CHECK(standin_calls("cuMemPoolSetAccess") == 2);
}

TEST_CASE("it cannot be shared with other processes, and says so") {
  const TestContext context;
  const CUdeviceptr block = allocate(4096);
  CUipcMemHandle handle{};
  CHECK(cuIpcGetMemHandle(&handle, block) == CUDA_ERROR_INVALID_VALUE);
  must(cuMemFree(block));
}

TEST_CASE("whatever call of the driver's fails, the request gets an error and nothing is lost") {
  for (const char* function : {"cuMemPoolCreate", "cuStreamCreate", "cuMemAllocFromPoolAsync",
                               "cuStreamQuery", "cuMemPoolSetAttribute", "cuCtxPushCurrent_v2"}) {
    for (const CUresult error : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN}) {
      for (std::uint64_t after = 0; after < 3; ++after) {
        INFO(function << " after " << after << ": " << error);
        {
          const TestContext context;
          REQUIRE(standin_fail(function, error, after, 1) == 1);
          for (int i = 0; i < 4; ++i) {
            CUdeviceptr block = 0;
            if (cuMemAlloc(&block, 20 * kMiB) == CUDA_SUCCESS) {
              CHECK(cuMemFree(block) == CUDA_SUCCESS);
            }
          }
          standin_fail(function, 0, 0, 0);
          must(cuMemFree(allocate(kLimit)));
        }
        CHECK(standin_live_bytes(0) == 0);
        CHECK(device().budget.used() == 0);
      }
    }
  }
}

TEST_CASE("a free that the driver refuses can be tried again") {
  const TestContext context;
  const CUdeviceptr block = allocate(20 * kMiB);
  REQUIRE(standin_fail("cuMemFree_v2", CUDA_ERROR_UNKNOWN, 0, 1) == 1);
  const CUresult refused = cuMemFree(block);
  standin_fail("cuMemFree_v2", 0, 0, 0);
  CHECK(refused == CUDA_SUCCESS);  // tried again at once, in the block's own context
  must(cuMemFree(allocate(kLimit)));
}

TEST_CASE("threads that allocate and free leave nothing on the limit's account") {
  const TestContext context;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&] {
      cuCtxSetCurrent(context.handle);
      for (int i = 0; i < 500; ++i) {
        CUdeviceptr block = 0;  // eight times 4 MiB always fit
        wrong += cuMemAlloc(&block, 4 * kMiB) != CUDA_SUCCESS ? 1 : 0;
        wrong += cuMemFree(block) != CUDA_SUCCESS ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
  must(cuCtxSynchronize());
  must(cuMemFree(allocate(kLimit)));
  CHECK(free_bytes() == kLimit);
}

TEST_CASE("a device without pools is served from an arena") {
  must(cuInit(0));
  cubfc::DriverFunctions functions = cubfc::Driver::find()->call();
  CHECK(cubfc::OwnPool::is_possible(functions, 0));
  functions.cuMemPoolCreate = nullptr;
  CHECK_FALSE(cubfc::OwnPool::is_possible(functions, 0));
  const cubfc::Device none(functions, cubfc::Process::active()->policy(), 0);
  CHECK(none.own_pool == nullptr);
}
