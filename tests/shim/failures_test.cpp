// What becomes of a driver call's failure where more is to be expected than an error: that each
// call may fail is for fail_each_call.py.
#include <atomic>
#include <cstring>
#include <thread>

#include "shim/test_context.h"

using namespace cubfc::test;

TEST_CASE("an error of earlier work is reported by the free, which then has not happened",
          "[sync]") {
  const TestContext context;
  const CUdeviceptr block = allocate(4096);
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  // How a free waits changes when something has captured, perhaps before this test.
  for (const bool captures_before : {false, true}) {
    if (captures_before) {
      CUgraph graph = nullptr;
      must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
      must(cuStreamEndCapture(stream, &graph));
      must(cuGraphDestroy(graph));
    }
    for (const char* waits : {"cuCtxSynchronize", "cuEventSynchronize"}) {
      standin_fail(waits, CUDA_ERROR_ILLEGAL_ADDRESS, 0, 1);
    }
    CHECK(cuMemFree(block) == CUDA_ERROR_ILLEGAL_ADDRESS);
    for (const char* waits : {"cuCtxSynchronize", "cuEventSynchronize"}) {
      standin_fail(waits, 0, 0, 0);
    }
    CUdeviceptr base = 0;
    must(cuMemGetAddressRange(&base, nullptr, block));
    CHECK(base == block);
  }
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

TEST_CASE("a request that fails is not tried again and again") {
  const TestContext context;
  CUdeviceptr block = 0;
  for (std::size_t bytes = 128 << 20; bytes > 512; bytes /= 2) {
    while (cuMemAlloc(&block, bytes) == CUDA_SUCCESS) {
    }
  }
  standin_reset_calls();
  CHECK(cuMemAlloc(&block, 100 << 20) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(standin_calls("cuMemAlloc_v2") + standin_calls("cuMemCreate") +
            standin_calls("cuMemAllocFromPoolAsync") <=
        4);
}

TEST_CASE("after an error that stays the driver answers, until the context has ended") {
  {
    const TestContext context;
    const CUdeviceptr block = allocate(4096);
    const CUdeviceptr other = allocate(4096);
    const CUdeviceptr third = allocate(4096);
    CUstream stream = nullptr;
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    constexpr std::uint64_t kForEver = ~std::uint64_t{0};
    const std::vector<const char*> functions{
        "cuCtxSynchronize", "cuEventQuery",  "cuEventSynchronize",
        "cuCtxRecordEvent", "cuMemAlloc_v2", "cuMemFree_v2",
        "cuMemGetInfo_v2",  "cuMemCreate",   "cuMemAllocFromPoolAsync"};
    for (const char* function : functions) {
      standin_fail(function, CUDA_ERROR_ILLEGAL_ADDRESS, 0, kForEver);
    }
    cuMemFree(block);
    // Under CUBFC_FREE=deferred the driver is asked when an epoch is full.
    CUdeviceptr address = 0;
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < 100 && result == CUDA_SUCCESS; ++i) {
      result = cuMemAlloc(&address, 4096);
      result = result == CUDA_SUCCESS ? cuMemFree(address) : result;
    }
    CHECK(result == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemAlloc(&address, 4096) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemFree(other) == CUDA_ERROR_ILLEGAL_ADDRESS);
    CHECK(cuMemFreeAsync(third, stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
    for (const char* function : functions) {
      standin_fail(function, 0, 0, 0);
    }
  }
  const TestContext again;
  must(cuMemFree(allocate(4096)));
}

TEST_CASE("a context that was reset where nobody saw it gives no memory any more") {
  const TestContext context;
  allocate(4096);
  const cubfc::DriverFunctions& driver = cubfc::Driver::find()->call();
  must(driver.cuDevicePrimaryCtxReset_v2(0));
  CUcontext handle = nullptr;
  must(driver.cuDevicePrimaryCtxRetain(&handle, 0));
  must(cuCtxSetCurrent(handle));
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{1} << 20, std::size_t{10} << 20}) {
    const CUdeviceptr block = allocate(bytes);
    must(cuMemsetD8(block, 7, bytes));
    CHECK(read(block, bytes) == std::vector<unsigned char>(bytes, 7));
    must(cuMemFree(block));
  }
  must(driver.cuDevicePrimaryCtxRelease_v2(0));
}

namespace {

// Another user of the device, who takes most of it just before each of cubfc's next tries to create
// memory, and gives it back just before cubfc's second look at what is free.
class Contender {
 public:
  Contender(std::size_t bytes, int times) {
    owner = std::this_thread::get_id();
    taken_bytes = bytes;
    times_left = times;
    taken = 0;
    standin_watch([](const standin_call* call) {
      if (call->result != nullptr || is_inside || std::this_thread::get_id() != owner) {
        return;
      }
      is_inside = true;
      if (std::strcmp(call->symbol, "cuMemCreate") == 0 && times_left > 0) {
        --times_left;
        looks = 0;
        take();
      }
      if (std::strcmp(call->symbol, "cuMemGetInfo_v2") == 0 && taken != 0 && ++looks == 2) {
        give_back();
      }
      is_inside = false;
    });
  }
  ~Contender() {
    standin_watch(nullptr);
    give_back();
  }
  Contender(const Contender&) = delete;
  Contender& operator=(const Contender&) = delete;

  static bool take() {
    const cubfc::DriverFunctions& driver = cubfc::Driver::find()->call();
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    return taken != 0 || driver.cuMemCreate(&taken, taken_bytes, &properties, 0) == CUDA_SUCCESS;
  }
  static void give_back() {
    if (taken != 0) {
      cubfc::Driver::find()->call().cuMemRelease(taken);
      taken = 0;
    }
  }
  static int left() { return times_left; }

 private:
  static inline std::thread::id owner;
  static inline bool is_inside = false;
  static inline int times_left = 0;
  static inline int looks = 0;
  static inline std::size_t taken_bytes = 0;
  static inline CUmemGenericAllocationHandle taken = 0;
};

}  // namespace

TEST_CASE("memory that another user takes and gives back, time and again, is had when it is free") {
  const TestContext context;
  must(cuMemFree(allocate(4096)));
  std::size_t free_bytes = 0;
  must(cubfc::Driver::find()->call().cuMemGetInfo_v2(&free_bytes, nullptr));
  constexpr std::size_t kGranule = 2 << 20;
  const std::size_t most = free_bytes / 10 * 7 / kGranule * kGranule;
  if (most < 20 * kGranule) {
    return;  // all is preallocated, and what others do is no matter
  }
  CUmemGenericAllocationHandle handle = 0;
  {
    const Contender contender(most, 5);
    must(create_physical(most, &handle));
    CHECK(Contender::left() < 5);  // what is preallocated it does not get
  }
  must(cuMemRelease(handle));
}

TEST_CASE("a context whose work has gone wrong does not keep what others have freed") {
  const TestContext context;
  std::size_t free_bytes = 0;
  must(cuMemGetInfo(&free_bytes, nullptr));
  const std::size_t most = free_bytes / 10 * 7;
  const CUdeviceptr block = allocate(most);
  CUcontext broken = nullptr;
  must(cuCtxCreate_v2(&broken, 0, 0));
  const CUdeviceptr its_block = allocate(4096);
  must(cuMemFreeAsync(its_block, nullptr));
  must(cuCtxSetCurrent(context.handle));
  standin_break_context(broken, CUDA_ERROR_ILLEGAL_ADDRESS);
  must(cuMemFreeAsync(block, nullptr));
  must(cuMemFree(allocate(most)));
  cuCtxDestroy_v2(broken);
}

TEST_CASE("peer access counts though the driver cannot tell who has it", "[sync]") {
  const TestContext first(0);
  const CUdeviceptr block = allocate(4096);
  const TestContext second(1);
  const HeldStream held;
  standin_fail("cuCtxGetId", CUDA_ERROR_UNKNOWN, 0, 1);
  const CUresult enabled = cuCtxEnablePeerAccess(first.handle, 0);
  standin_fail("cuCtxGetId", 0, 0, 0);
  REQUIRE((enabled == CUDA_SUCCESS || enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED));
  must(cuMemsetD8Async(block, 0xaa, 4096, held.stream));
  std::atomic<bool> freed{false};
  std::thread other([&] {
    cuCtxSetCurrent(first.handle);
    CHECK(cuMemFree(block) == CUDA_SUCCESS);
    freed = true;
  });
  wait_until_a_call_waits(freed);
  CHECK_FALSE(freed);
  standin_release_stream(held.stream);
  other.join();
}
