// CUBFC_FREE=deferred: a free returns at once, and the block is handed out again when the work
// before it is done.
#include <atomic>
#include <random>
#include <thread>

#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

std::uint64_t waits() {
  return standin_calls("cuCtxSynchronize") + standin_calls("cuStreamSynchronize") +
         standin_calls("cuEventSynchronize");
}

// All that waits is in the open epoch, which is not full.
bool all_but_few_came_back() {
  return bytes_waiting() < std::size_t{32} * 512;
}

// Frees enough small blocks that the open epoch is closed.
void close_epoch() {
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 32; ++i) {
    blocks.push_back(allocate(512));
  }
  for (const CUdeviceptr block : blocks) {
    must(cuMemFree(block));
  }
}

}  // namespace

TEST_CASE("a free does not wait, and its block is not handed out while work may use it",
          "[deferred]") {
  const TestContext context;
  const CUdeviceptr block = allocate(4096);
  {
    const HeldStream held;
    must(cuMemsetD8Async(block, 1, 4096, held.stream));
    standin_reset_calls();
    must(cuMemFree(block));
    close_epoch();
    CHECK(waits() == 0);
    CHECK(standin_calls("cuCtxRecordEvent") == 1);
    CHECK(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 200; ++i) {
      const CUdeviceptr other = allocate(4096);
      CHECK((other + 4096 <= block || block + 4096 <= other));
    }
    CHECK(bytes_waiting() > 4096);
  }
  must(cuCtxSynchronize());
  close_epoch();
  allocate(4096);
  CHECK(all_but_few_came_back());
  verify_arenas();
}

TEST_CASE("a loop that allocates, launches and frees on four streams never waits", "[deferred]") {
  const TestContext context;
  std::vector<CUstream> streams(4);
  for (CUstream& stream : streams) {
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  must(cuMemFree(allocate(64 << 20)));  // the arena is there, and large enough
  must(cuCtxSynchronize());
  standin_reset_calls();
#if CUBFC_TEST_SANITIZED
  constexpr std::uint64_t kIterations = 10'000;  // each takes ten times as long
#else
  constexpr std::uint64_t kIterations = 100'000;
#endif
  for (std::uint64_t i = 0; i < kIterations; ++i) {
    const CUdeviceptr block = allocate(4096);
    must(cuMemsetD8Async(block, static_cast<unsigned char>(i), 4096, streams[i % 4]));
    must(cuMemFree(block));
    // However busy this machine is, the streams keep up.
    for (const CUstream stream : streams) {
      while (i % 256 == 0 && cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {
        std::this_thread::yield();
      }
    }
  }
  CHECK(waits() == 0);
  CHECK(standin_calls("cuCtxRecordEvent") <= kIterations / 16);
  CHECK(standin_calls("cuEventCreate") <= kIterations / 32);
}

TEST_CASE("an allocation waits for freed memory before it fails", "[deferred]") {
  const TestContext context;
  for (int round = 0; round < 3; ++round) {
    std::vector<CUdeviceptr> blocks;
    CUdeviceptr block = 0;
    while (cuMemAlloc(&block, 8 << 20) == CUDA_SUCCESS) {
      blocks.push_back(block);
    }
    REQUIRE(blocks.size() > 20);
    for (const CUdeviceptr each : blocks) {
      must(cuMemsetD8Async(each, 1, 64 << 10, nullptr));
      must(cuMemFree(each));
    }
    must(cuMemAlloc(&block, 200 << 20));
    must(cuMemFree(block));
  }
  verify_arenas();
}

TEST_CASE("what many streams have freed comes back", "[deferred]") {
  const TestContext context;
  for (int i = 0; i < 300; ++i) {
    CUstream stream = nullptr;
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    must(cuMemFreeAsync(allocate(900 << 10), stream));
    must(cuStreamSynchronize(stream));
  }
  CHECK(bytes_waiting() < 8 << 20);
}

TEST_CASE("where no event can be recorded, freed memory comes back all the same", "[deferred]") {
  const TestContext context;
  for (const char* function : {"cuCtxRecordEvent", "cuEventCreate", "cuEventQuery"}) {
    INFO(function);
    standin_fail(function, CUDA_ERROR_OUT_OF_MEMORY, 0, ~std::uint64_t{0});
    for (int i = 0; i < 400; ++i) {
      must(cuMemFree(allocate(4 << 20)));
    }
    standin_fail(function, 0, 0, 0);
    for (int i = 0; i < 8; ++i) {  // each asks about some of them
      close_epoch();
    }
    CHECK(all_but_few_came_back());
    verify_arenas();
  }
}

TEST_CASE("where events are lost for good, freed memory comes back all the same", "[deferred]") {
  const TestContext context;
  constexpr std::size_t kBytes = 32 << 20;
  std::vector<CUdeviceptr> blocks;
  CUdeviceptr block = 0;
  while (cuMemAlloc(&block, kBytes) == CUDA_SUCCESS) {
    blocks.push_back(block);
  }
  REQUIRE(blocks.size() >= 4);
  must(cuMemFree(blocks[0]));  // a fence is recorded for it
  for (const char* function : {"cuEventQuery", "cuEventSynchronize"}) {
    standin_fail(function, CUDA_ERROR_UNKNOWN, 0, ~std::uint64_t{0});
  }
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    must(cuMemFree(blocks[i]));
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    CHECK(cuMemAlloc(&block, kBytes) == CUDA_SUCCESS);
  }
  for (const char* function : {"cuEventQuery", "cuEventSynchronize"}) {
    standin_fail(function, 0, 0, 0);
  }
  verify_arenas();
}

TEST_CASE("a context that ends takes what waits in it, and nothing else", "[deferred]") {
  const TestContext context;
  const CUdeviceptr survivor = allocate(4096);
  for (int i = 0; i < 5; ++i) {
    CUcontext other = nullptr;
    must(cuCtxCreate_v2(&other, 0, 0));
    close_epoch();
    must(cuMemFree(allocate(1 << 20)));
    must(cuCtxDestroy_v2(other));
    must(cuCtxSetCurrent(context.handle));
    close_epoch();
  }
  must(cuMemFree(survivor));
  close_epoch();
  must(cuCtxSynchronize());
  allocate(512);
  CHECK(all_but_few_came_back());
  verify_arenas();
}

TEST_CASE("while a stream captures nothing is recorded, and afterwards the memory comes back",
          "[deferred]") {
  const TestContext context;
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuMemFree(allocate(4096)));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  standin_reset_calls();
  close_epoch();
  close_epoch();
  CHECK(waits() == 0);
  CHECK(standin_calls("cuCtxRecordEvent") + standin_calls("cuEventCreate") +
            standin_calls("cuEventQuery") ==
        0);
  CUgraph graph = nullptr;
  must(cuStreamEndCapture(stream, &graph));
  must(cuMemFree(allocate(512)));
  must(cuCtxSynchronize());
  allocate(512);
  CHECK(all_but_few_came_back());
}

TEST_CASE("a block of one device that another device's stream uses waits for that stream",
          "[deferred]") {
  const TestContext second(1);
  const HeldStream held;
  const TestContext first(0);
  const CUdeviceptr block = allocate(4096);
  must(cuCtxPushCurrent(second.handle));
  must(cuCtxEnablePeerAccess(first.handle, 0));
  must(cuMemsetD8Async(block, 0xaa, 4096, held.stream));
  must(cuCtxPopCurrent(nullptr));
  must(cuMemFree(block));
  close_epoch();
  for (int i = 0; i < 100; ++i) {
    CHECK(allocate(4096) != block);
  }
  standin_release_stream(held.stream);  // the first device's context waits for it before it ends
}

TEST_CASE("memory freed in a context that ends is not taken from another context's stream",
          "[deferred]") {
  const TestContext second(1);
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void* host = nullptr;
  must(cuMemAllocHost(&host, 4096));
  for (int round = 0; round < 20; ++round) {
    const TestContext first(0);
    const CUdeviceptr block = allocate(4096);
    must(cuMemsetD8(block, 7, 4096));
    must(cuCtxSynchronize());  // no work of this context is what the other one's stream waits for
    standin_work_delay(2'000'000);
    must(cuCtxPushCurrent(second.handle));
    const CUresult enabled = cuCtxEnablePeerAccess(first.handle, 0);
    REQUIRE((enabled == CUDA_SUCCESS || enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED));
    must(cuMemsetD8Async(allocate(4096), 1, 4096, stream));
    must(cuMemcpyDtoHAsync(host, block, 4096, stream));
    must(cuCtxPopCurrent(nullptr));
    must(cuMemFree(block));
    must(cuDevicePrimaryCtxReset_v2(0));
    CHECK(cuStreamQuery(stream) == CUDA_SUCCESS);
    standin_work_delay(0);
    CHECK(*static_cast<unsigned char*>(host) == 7);
  }
  must(cuCtxSetCurrent(second.handle));
  must(cuMemFreeHost(host));
}

TEST_CASE("threads that free while others allocate never share a block", "[deferred]") {
  const TestContext context;
  standin_work_delay(20000);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 6; ++number) {
    threads.emplace_back([&, number] {
      cuCtxSetCurrent(context.handle);
      CUstream stream = nullptr;
      cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
      std::minstd_rand random(static_cast<unsigned>(number) + 1);
      for (int i = 0; i < 100; ++i) {
        const std::size_t bytes = 1 + random() % 200000;
        const auto value = static_cast<unsigned char>(number * 31 + i);
        std::vector<unsigned char> data(bytes);
        CUdeviceptr block = 0;
        wrong += cuMemAlloc(&block, bytes) != CUDA_SUCCESS;
        wrong += cuMemsetD8Async(block, value, bytes, stream) != CUDA_SUCCESS;
        wrong += cuMemcpyDtoHAsync(data.data(), block, bytes, stream) != CUDA_SUCCESS;
        wrong += cuMemFree(block) != CUDA_SUCCESS;  // the copy may not have begun
        cuStreamSynchronize(stream);
        wrong += data != std::vector<unsigned char>(bytes, value);
      }
      cuStreamDestroy_v2(stream);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  standin_work_delay(0);
  CHECK(wrong == 0);
  verify_arenas();
}

TEST_CASE("giving up a reference to a context that is not the last waits for nothing",
          "[deferred]") {
  const TestContext primary;
  CUcontext own = nullptr;
  must(cuCtxCreate_v2(&own, 0, 0));
  const CUdeviceptr block = allocate(1 << 20);
  {
    const HeldStream held;
    must(cuMemsetD8Async(block, 1, 1 << 20, held.stream));
    must(cuMemFree(block));  // and waits for the stream
    CUcontext again = nullptr;
    must(cuDevicePrimaryCtxRetain(&again, 0));
    must(cuDevicePrimaryCtxRelease_v2(0));
    must(cuCtxAttach(&again, 0));
    must(cuCtxDetach(own));
#if CUDA_VERSION >= 12050
    CUdevResource all{};
    must(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
    CUdevResourceDesc description = nullptr;
    must(cuDevResourceGenerateDesc(&description, &all, 1));
    CUgreenCtx green = nullptr;
    must(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    must(cuGreenCtxDestroy(green));
#endif
    CHECK(cuStreamQuery(held.stream) == CUDA_ERROR_NOT_READY);
  }
  must(cuCtxDestroy_v2(own));
  CHECK(standin_live_bytes(0) == 0);
}
