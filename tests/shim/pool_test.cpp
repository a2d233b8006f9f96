// CUBFC_ALLOCATOR=cuda_async under a limit of 64 MiB, warmed with 16 MiB; and what the program's
// own pools and graphs take of the limit. On two devices that can reach each other.
#include <atomic>
#include <functional>
#include <limits>
#include <set>
#include <thread>
#include <utility>

#include "shim/device/devices.h"
#include "shim/servers/own_pool.h"
#include "shim/servers/servers.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kLimit = 64 * kMiB;

cubfc::Device& device(int ordinal = 0) {
  return *cubfc::Process::active()->contexts().devices().get(ordinal);
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

// Memory that a graph has allocated and nobody has freed, as long as this lives. A graph takes
// memory when it is launched, and keeps it for further launches until it is trimmed.
struct GraphMemory {
  explicit GraphMemory(std::size_t bytes) {
    CUstream stream = nullptr;
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    must(cuMemAllocAsync(&memory, bytes, stream));
    must(cuStreamEndCapture(stream, &graph));
    must(cuGraphInstantiateWithFlags(&exec, graph, 0));
    must(cuGraphLaunch(exec, stream));
    must(cuStreamSynchronize(stream));
    must(cuStreamDestroy_v2(stream));
  }
  ~GraphMemory() {
    cuMemFree(memory);
    cuGraphExecDestroy(exec);
    cuGraphDestroy(graph);
    cuDeviceGraphMemTrim(0);
  }
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
};

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
  CHECK(device().limit.budget.used() == 0);
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
  device().limit.pools.refresh();
  CHECK(device().limit.budget.used() == 60 * kMiB);
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
  CHECK(device().limit.budget.used() <= kLimit);
}

TEST_CASE("the memory of graphs counts, and is not lent to pools") {
  const TestContext context;
  const GraphMemory graph(40 * kMiB);
  CHECK(free_bytes() <= 24 * kMiB);
  CUdeviceptr block = 0;
  CHECK(cuMemAlloc(&block, 30 * kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  must(cuMemFree(allocate(20 * kMiB)));
  std::vector<CUdeviceptr> blocks;
  while (cuMemAllocAsync(&block, 8 * kMiB, nullptr) == CUDA_SUCCESS) {
    blocks.push_back(block);
  }
  CHECK(blocks.size() == 3);
  CHECK(standin_live_bytes(0) <= kLimit);
  for (const CUdeviceptr each : blocks) {
    must(cuMemFreeAsync(each, nullptr));
  }
  must(cuCtxSynchronize());
}

TEST_CASE("memory that graphs keep and do not use is given back before a request fails") {
  const TestContext context;
  {
    const GraphMemory graph(40 * kMiB);
    must(cuMemFree(graph.memory));
    CHECK(free_bytes() <= 24 * kMiB);
    must(cuMemFree(allocate(60 * kMiB)));
    must(cuGraphLaunch(graph.exec, nullptr));
    must(cuCtxSynchronize());
    must(cuMemFree(graph.memory));
    CUmemGenericAllocationHandle handle = 0;
    must(create_physical(60 * kMiB, &handle));
    CHECK(standin_live_bytes(0) <= kLimit);
    must(cuMemRelease(handle));
    must(cuGraphLaunch(graph.exec, nullptr));
    must(cuCtxSynchronize());
  }
}

TEST_CASE("what is freed in one stream counts until the stream has got there") {
  const TestContext context;
  const HoardingPool hoarding;
  CUstream streams[2] = {};
  must(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
  must(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
  standin_work_delay(20'000'000);
  for (int i = 0; i < 6; ++i) {
    CUdeviceptr block = 0;
    must(cuMemAllocFromPoolAsync(&block, 40 * kMiB, hoarding.pool, streams[i % 2]));
    must(cuMemsetD8Async(block, 1, 40 * kMiB, streams[i % 2]));
    must(cuMemFreeAsync(block, streams[i % 2]));
  }
  standin_work_delay(0);
  must(cuCtxSynchronize());
}

TEST_CASE("the blocks of a pool that is destroyed count until they are freed") {
  const TestContext context;
  const HoardingPool hoarding;
  CUdeviceptr outstanding = 0;
  CUdeviceptr block = 0;
  {
    const HoardingPool destroyed;
    must(cuMemAllocFromPoolAsync(&outstanding, 30 * kMiB, destroyed.pool, nullptr));
  }
  must(cuMemAllocFromPoolAsync(&block, 30 * kMiB, hoarding.pool, nullptr));
  must(cuMemFree(block));
  CUmemGenericAllocationHandle handle = 0;
  must(create_physical(34 * kMiB, &handle));
  CHECK(standin_live_bytes(0) <= kLimit);
  CHECK(cuMemAlloc(&block, kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  must(cuMemRelease(handle));
  must(cuMemFree(outstanding));
  must(cuMemFree(allocate(60 * kMiB)));
}

TEST_CASE("a pool that the driver does not destroy counts as before") {
  const TestContext context;
  const HoardingPool hoarding;
  CUdeviceptr block = 0;
  must(cuMemAllocFromPoolAsync(&block, 40 * kMiB, hoarding.pool, nullptr));
  must(cuMemFree(block));
  REQUIRE(standin_fail("cuMemPoolDestroy", CUDA_ERROR_UNKNOWN, 0, 1) == 1);
  CHECK(cuMemPoolDestroy(hoarding.pool) == CUDA_ERROR_UNKNOWN);
  CHECK(free_bytes() == 24 * kMiB);
}

TEST_CASE("no request fails because another thread asks what pools hold") {
  const TestContext context;
  const GraphMemory graph(30 * kMiB);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int number = 0; number < 2; ++number) {
    threads.emplace_back([&] {
      cuCtxSetCurrent(context.handle);
      while (!done) {
        std::size_t bytes = 0;
        cuMemGetInfo(&bytes, nullptr);
      }
    });
  }
  int wrong = 0;
  for (int i = 0; i < 2000; ++i) {
    CUmemGenericAllocationHandle handle = 0;
    wrong += create_physical(30 * kMiB, &handle) == CUDA_SUCCESS ? 0 : 1;
    cuMemRelease(handle);
    CUdeviceptr block = 0;
    wrong += cuMemAlloc(&block, 30 * kMiB) == CUDA_SUCCESS ? 0 : 1;
    cuMemFree(block);
  }
  done = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
}

TEST_CASE("the limit holds while one thread takes from the pool and another past it") {
  const TestContext context;
  std::atomic<int> above{0};
  const auto look = [&] { above += standin_live_bytes(0) > kLimit ? 1 : 0; };
  std::thread other([&] {
    cuCtxSetCurrent(context.handle);
    for (int i = 0; i < 500; ++i) {
      CUmemGenericAllocationHandle handle = 0;
      if (create_physical(40 * kMiB, &handle) == CUDA_SUCCESS) {
        look();
        cuMemRelease(handle);
      }
    }
  });
  for (int i = 0; i < 500; ++i) {
    CUdeviceptr block = 0;
    if (cuMemAlloc(&block, 40 * kMiB) == CUDA_SUCCESS) {
      look();
      cuMemFree(block);
    }
  }
  other.join();
  CHECK(above == 0);
}

TEST_CASE("a block that is freed twice, while the driver takes it back, is taken back once") {
  const TestContext context;
  for (int round = 0; round < 20; ++round) {
    const CUdeviceptr block = allocate(kMiB);
    std::atomic<int> freed{0};
    const auto free_it = [&] {
      cuCtxSetCurrent(context.handle);
      freed += cuMemFree(block) == CUDA_SUCCESS ? 1 : 0;
    };
    standin_latency("cuMemFree_v2", 200'000);
    std::thread one(free_it);
    std::thread two(free_it);
    one.join();
    two.join();
    standin_latency("cuMemFree_v2", 0);
    CHECK(freed == 1);
    must(cuMemFree(allocate(kLimit)));
  }
}

TEST_CASE("a block is found where the driver has not yet said that what lay there is free") {
  static std::function<void()> meanwhile;
  static decltype(cubfc::DriverFunctions::cuMemFree_v2) free_it = nullptr;
  const TestContext context;
  cubfc::DriverFunctions driver = cubfc::Process::active()->driver();
  free_it = std::exchange(driver.cuMemFree_v2, [](CUdeviceptr address) {
    const CUresult result = free_it(address);
    std::exchange(meanwhile, nullptr)();
    return result;
  });
  cubfc::Context& owner = *cubfc::Process::active()->contexts().current();
  cubfc::OwnPool pool(driver, cubfc::Process::active()->policy(), device());
  must(pool.prepare(owner));
  const auto take = [&](std::size_t bytes) {
    CUdeviceptr address = 0;
    must(pool.allocate(owner, &address, bytes));
    pool.add(owner, address, *cubfc::Claim::take(device().limit, cubfc::Memory::kOwnPool, bytes));
    return address;
  };
  // Two halves become one block while the second, or the first, is on its way back.
  for (const bool lower_is_last : {false, true}) {
    meanwhile = [] {};
    CUdeviceptr lower = take(4 * kMiB);
    CUdeviceptr upper = take(4 * kMiB);
    REQUIRE(upper == lower + 4 * kMiB);
    must(pool.free(lower_is_last ? upper : lower));
    CUdeviceptr whole = 0;
    meanwhile = [&] {
      whole = take(8 * kMiB);
      for (const std::size_t offset : {0ul, 3 * kMiB, 5 * kMiB, 8 * kMiB - 1}) {
        const auto block = pool.find(whole + offset);
        REQUIRE(block);
        CHECK(block->address == whole);
        CHECK(block->live);
      }
    };
    must(pool.free(lower_is_last ? lower : upper));
    REQUIRE(whole == lower);
    CHECK(pool.stats().bytes_in_use == 8 * kMiB);
    meanwhile = [] {};
    must(pool.free(whole));
  }
  // A block that begins within what is on its way back, and one that ends there.
  meanwhile = [] {};
  const CUdeviceptr old = take(8 * kMiB);
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  meanwhile = [&] {
    first = take(2 * kMiB);
    second = take(2 * kMiB);
    CHECK(pool.find(first)->address == first);
    CHECK(pool.find(second + kMiB)->address == second);
    CHECK_FALSE(pool.find(second + 2 * kMiB));
  };
  must(pool.free(old));
  REQUIRE(first == old);
  CHECK(pool.stats().bytes_in_use == 4 * kMiB);
  for (const CUdeviceptr block : {first, second}) {
    meanwhile = [] {};
    must(pool.free(block));
  }
  CHECK(pool.stats().bytes_in_use == 0);
  pool.leave_behind(owner.id);  // and the pool goes
}

TEST_CASE("a primary context that is reset is not active afterwards") {
  const TestContext context;
  allocate(4096);
  must(cuDevicePrimaryCtxReset_v2(0));
  unsigned flags = 0;
  int active = -1;
  must(cuDevicePrimaryCtxGetState(0, &flags, &active));
  CHECK(active == 0);
  CHECK(standin_live_bytes(0) == 0);
}

TEST_CASE("a pool that cannot be set up is not kept") {
  const TestContext context;
  standin_reset_calls();
  REQUIRE(standin_fail("cuMemPoolSetAttribute", CUDA_ERROR_INVALID_VALUE, 0, UINT64_MAX) == 1);
  for (int i = 0; i < 10; ++i) {
    const CUdeviceptr block = allocate(kMiB);  // the driver's own
    must(cuMemFree(block));
  }
  standin_fail("cuMemPoolSetAttribute", 0, 0, 0);
  CHECK(standin_calls("cuMemPoolDestroy") == 10);
  CHECK(standin_calls("cuMemFree_v2") >= 10);
  must(cuMemFree(allocate(kMiB)));
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

TEST_CASE("blocks of two devices have different ids") {
  const auto id_of_block_on = [](int ordinal) {
    const TestContext context(ordinal);
    unsigned long long id = 0;
    must(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, allocate(4096)));
    return id;
  };
  std::set<unsigned long long> ids;
  for (const int ordinal : {0, 1, 0, 1}) {
    ids.insert(id_of_block_on(ordinal));
  }
  CHECK(ids.size() == 4);
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
        CHECK(device().limit.budget.used() == 0);
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
  if (refused != CUDA_SUCCESS) {  // else it is tried again at the next allocation
    must(cuMemFree(block));
  }
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

#if CUDA_VERSION >= 12020  // earlier headers know no pools of the host
TEST_CASE("a pool in the host's memory is not on the device's account") {
  const TestContext context;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  CUmemoryPool pool = nullptr;
  must(cuMemPoolCreate(&pool, &properties));
  CUdeviceptr of_host = 0;
  CHECK(cuMemAllocFromPoolAsync(&of_host, kLimit + 16 * kMiB, pool, nullptr) == CUDA_SUCCESS);
  CHECK(free_bytes() == kLimit);
  // It stays one when the driver does not destroy it.
  REQUIRE(standin_fail("cuMemPoolDestroy", CUDA_ERROR_UNKNOWN, 0, 1) == 1);
  CHECK(cuMemPoolDestroy(pool) == CUDA_ERROR_UNKNOWN);
  CUdeviceptr more_of_host = 0;
  CHECK(cuMemAllocFromPoolAsync(&more_of_host, kLimit + 16 * kMiB, pool, nullptr) == CUDA_SUCCESS);
  CHECK(free_bytes() == kLimit);
  must(cuMemFreeAsync(more_of_host, nullptr));
  must(cuMemFree(allocate(kLimit / 2)));
  must(cuMemFreeAsync(of_host, nullptr));
  must(cuCtxSynchronize());
  must(cuMemPoolDestroy(pool));
  CHECK(free_bytes() == kLimit);
}
#endif

TEST_CASE("a device without pools is served from an arena") {
  must(cuInit(0));
  cubfc::DriverFunctions functions = cubfc::Driver::find()->call();
  CHECK(cubfc::OwnPool::is_possible(functions, 0));
  functions.cuMemPoolCreate = nullptr;
  CHECK_FALSE(cubfc::OwnPool::is_possible(functions, 0));
  const auto figures = std::make_unique<cubfc::figures::ProcessFigures>();
  cubfc::Callers callers(*figures, nullptr, true);
  const cubfc::Device none(functions, cubfc::Process::active()->policy(), &cubfc::choose_server, 0,
                           1 << 30, {*figures, callers, nullptr});
  CHECK(none.server->allocator() == cubfc::config::Allocator::kBfc);
}
