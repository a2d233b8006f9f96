// Memory that comes back: when the program asks for it, and when it is idle. With a preallocation
// of 32 MiB.
#include <atomic>
#include <chrono>
#include <thread>

#include "shim/cubfc.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kPreallocated = 32 * kMiB;

// Frees that wait for work come back when it is done.
void free_all(const std::vector<CUdeviceptr>& blocks) {
  for (const CUdeviceptr block : blocks) {
    must(cuMemFree(block));
  }
  must(cuCtxSynchronize());
}

bool comes_true(const std::function<bool()>& condition) {
  for (int tries = 0; tries < 3000 && !condition(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

}  // namespace

TEST_CASE("the program can have unused memory given back, and what was preallocated, too",
          "[request]") {
  const TestContext context;
  CHECK(cubfc_trim(0) == 0);
  const CUdeviceptr kept = allocate(kMiB);
  must(cuMemsetD8(kept, 5, kMiB));
  free_all({allocate(100 * kMiB), allocate(20 * kMiB)});
  const std::uint64_t before = standin_live_bytes(0);
  CHECK(before >= 120 * kMiB);
  const std::uint64_t given = cubfc_trim(0);
  CHECK(given > 0);
  CHECK(standin_live_bytes(0) == before - given);
  CHECK(standin_live_bytes(0) >= kPreallocated);
  CHECK(standin_live_bytes(0) < 130 * kMiB);
  CHECK(cubfc_trim(0) == 0);
  const std::uint64_t with_preallocated = standin_live_bytes(0);
  const std::uint64_t rest = cubfc_trim(CUBFC_TRIM_PREALLOCATED);
  CHECK(rest == with_preallocated - standin_live_bytes(0));
  CHECK(standin_live_bytes(0) <= kPreallocated);
  CHECK(read(kept, kMiB) == std::vector<unsigned char>(kMiB, 5));
  free_all({kept, allocate(100 * kMiB)});
  cubfc_trim(CUBFC_TRIM_PREALLOCATED);
  CHECK(standin_live_bytes(0) == 0);
  verify_arenas();
}

TEST_CASE("it is given back whatever context is current, and of every device", "[request]") {
  const TestContext second(1);
  free_all({allocate(100 * kMiB)});
  const TestContext first(0);
  free_all({allocate(100 * kMiB)});
  must(cuCtxSetCurrent(nullptr));
  cubfc_trim(CUBFC_TRIM_PREALLOCATED);
  CHECK(standin_live_bytes(0) == 0);
  CHECK(standin_live_bytes(1) == 0);
  CUcontext current = nullptr;
  must(cuCtxGetCurrent(&current));
  CHECK(current == nullptr);
}

TEST_CASE("what work on the device still uses stays", "[request][deferred]") {
  const TestContext context;
  const HeldStream held;
  const CUdeviceptr block = allocate(20 * kMiB);
  must(cuMemsetD8Async(block, 1, 20 * kMiB, held.stream));
  must(cuMemFree(block));
  cubfc_trim(CUBFC_TRIM_PREALLOCATED);
  CHECK(standin_live_bytes(0) >= 20 * kMiB);
  standin_release_stream(held.stream);
  must(cuStreamSynchronize(held.stream));
  cubfc_trim(CUBFC_TRIM_PREALLOCATED);
  CHECK(standin_live_bytes(0) == 0);
}

TEST_CASE("a capture lives on while memory is given back", "[request]") {
  const TestContext context;
  free_all({allocate(100 * kMiB)});
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  cubfc_trim(CUBFC_TRIM_PREALLOCATED);
  CUgraph graph = nullptr;
  must(cuStreamEndCapture(stream, &graph));
  must(cuGraphDestroy(graph));
  cubfc_trim(CUBFC_TRIM_PREALLOCATED);  // nothing that waits is looked at during a capture
  CHECK(standin_live_bytes(0) == 0);
}

TEST_CASE("threads that allocate and free are not disturbed", "[request]") {
  const TestContext context;
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::thread trimming([&] {
    while (!done) {
      cubfc_trim(CUBFC_TRIM_PREALLOCATED);
    }
  });
  std::vector<std::thread> threads;
  for (unsigned char number = 1; number <= 3; ++number) {
    threads.emplace_back([&, number] {
      cuCtxSetCurrent(context.handle);
      for (int i = 0; i < 50; ++i) {
        const std::size_t bytes = (std::size_t{1} << (i % 24)) + number;
        CUdeviceptr block = 0;
        unsigned char last = 0;
        wrong += cuMemAlloc(&block, bytes) != CUDA_SUCCESS ? 1 : 0;
        wrong += cuMemsetD8(block, number, bytes) != CUDA_SUCCESS ? 1 : 0;
        wrong += cuMemcpyDtoH(&last, block + bytes - 1, 1) != CUDA_SUCCESS ? 1 : 0;
        wrong += last != number ? 1 : 0;
        wrong += cuMemFree(block) != CUDA_SUCCESS ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  done = true;
  trimming.join();
  CHECK(wrong == 0);
  verify_arenas();
}

TEST_CASE("what is unused goes back when the program is idle, and what was preallocated stays",
          "[idle]") {
  const TestContext context;
  const CUdeviceptr kept = allocate(kMiB);
  free_all({allocate(100 * kMiB), allocate(20 * kMiB)});
  CHECK(comes_true([] { return standin_live_bytes(0) < 130 * kMiB; }));
  CHECK(standin_live_bytes(0) >= kPreallocated);
  free_all({kept, allocate(100 * kMiB)});
  CHECK(comes_true([] { return standin_live_bytes(0) < 130 * kMiB; }));
  verify_arenas();
}

TEST_CASE("contexts come and go beside the thread that watches", "[idle]") {
  must(cuInit(0));
  for (int i = 0; i < 50; ++i) {
    CUcontext context = nullptr;
    must(cuCtxCreate_v2(&context, 0, i % 2));
    must(cuMemFree(allocate(40 * kMiB)));
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 5));
    must(cuCtxDestroy_v2(context));
  }
  CHECK(standin_live_bytes(0) == 0);
  CHECK(standin_live_bytes(1) == 0);
}
