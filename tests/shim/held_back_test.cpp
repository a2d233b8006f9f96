// CUBFC_FREE=deferred, on a device of 256 MiB: how far the program may run ahead of the device.
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kMiB = 1 << 20;

std::vector<CUdeviceptr> allocate_all(std::size_t count, std::size_t bytes) {
  std::vector<CUdeviceptr> blocks;
  for (std::size_t i = 0; i < count; ++i) {
    blocks.push_back(allocate(bytes));
  }
  return blocks;
}

// Work of the stream that uses the block.
void use(CUdeviceptr block, CUstream stream) {
  must(cuMemsetD8Async(block, 1, 512, stream));
}

}  // namespace

TEST_CASE("frees do not wait as long as little does", "[deferred]") {
  const TestContext context;
  const auto blocks = allocate_all(12, 2 * kMiB);
  const HeldStream held;
  use(blocks[0], held.stream);
  for (const CUdeviceptr block : blocks) {
    must(cuMemFree(block));
  }
  CHECK(bytes_waiting() >= 20 * kMiB);
}

TEST_CASE("a free waits as without cubfc where more would wait than the program may run ahead by",
          "[deferred]") {
  const TestContext context;
  const auto blocks = allocate_all(30, 4 * kMiB);
  HeldStream held;
  use(blocks[0], held.stream);
  std::atomic<bool> over{false};
  std::atomic<std::size_t> freed{0};
  std::thread thread([&] {
    cuCtxSetCurrent(context.handle);
    for (const CUdeviceptr block : blocks) {
      cuMemFree(block);
      ++freed;
    }
    over = true;
  });
  wait_until_a_call_waits(over);
  CHECK_FALSE(over);
  CHECK(freed < blocks.size());
  CHECK(bytes_waiting() <= 48 * kMiB);
  standin_release_stream(held.stream);
  thread.join();
  CHECK(freed == blocks.size());
  must(cuCtxSynchronize());
  must(cuMemFree(allocate(180 * kMiB)));
}

TEST_CASE("what a stream frees in its order holds nobody back", "[deferred]") {
  const TestContext context;
  const auto blocks = allocate_all(30, 4 * kMiB);
  HeldStream held;
  use(blocks[0], held.stream);
  for (const CUdeviceptr block : blocks) {
    must(cuMemFreeAsync(block, held.stream));
  }
  const CUdeviceptr plain = allocate(kMiB);
  must(cuMemFree(plain));
  standin_release_stream(held.stream);
  must(cuCtxSynchronize());
}

TEST_CASE("while a stream captures no free waits, however much does", "[deferred]") {
  const TestContext context;
  const auto blocks = allocate_all(30, 4 * kMiB);
  CUstream capturing = nullptr;
  CUgraph graph = nullptr;
  must(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
  {
    HeldStream held;
    use(blocks[0], held.stream);
    must(cuStreamBeginCapture_v2(capturing, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (const CUdeviceptr block : blocks) {
      must(cuMemFree(block));
    }
    CHECK(bytes_waiting() == 120 * kMiB);
    must(cuStreamEndCapture(capturing, &graph));
  }
  must(cuGraphDestroy(graph));
  must(cuStreamDestroy_v2(capturing));
  must(cuCtxSynchronize());
  must(cuMemFree(allocate(180 * kMiB)));
}

TEST_CASE("no more waits than half of what is left to give", "[deferred]") {
  const TestContext context;
  std::vector<CUdeviceptr> full;
  CUdeviceptr block = 0;
  while (full.size() < 100 && cuMemAlloc(&block, 4 * kMiB) == CUDA_SUCCESS) {
    full.push_back(block);
  }
  REQUIRE(full.size() > 30);
  HeldStream held;
  use(full[0], held.stream);
  std::atomic<bool> over{false};
  std::thread thread([&] {
    cuCtxSetCurrent(context.handle);
    cuMemFree(full[0]);  // nothing is left: it waits
    over = true;
  });
  wait_until_a_call_waits(over);
  CHECK_FALSE(over);
  standin_release_stream(held.stream);
  thread.join();
  for (std::size_t i = 1; i < full.size(); ++i) {
    must(cuMemFree(full[i]));
  }
  must(cuCtxSynchronize());
}

// Without cubfc an allocation waits for nothing, and a free for work that the lock's holder has
// submitted before.
TEST_CASE("an allocation under a lock that a stream's function wants goes on", "[deferred]") {
  const TestContext context;
  struct Shared {
    std::mutex mutex;
    std::atomic<int> ran{0};
  } shared;
  for (const std::size_t filled : {0, 200, 230}) {
    INFO(filled << " MiB are taken");
    const CUdeviceptr full = filled == 0 ? 0 : allocate(filled * kMiB);
    CUstream stream = nullptr;
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    const std::size_t bytes = filled == 230 ? 4 * kMiB : 10 * kMiB;
    for (int round = 0; round < 200; ++round) {
      CUdeviceptr blocks[4] = {};
      for (CUdeviceptr& block : blocks) {
        const std::lock_guard lock(shared.mutex);
        must(cuLaunchHostFunc(
            stream,
            [](void* data) {
              auto& of_all = *static_cast<Shared*>(data);
              const std::lock_guard inner(of_all.mutex);
              ++of_all.ran;
            },
            &shared));
        must(cuMemAlloc(&block, bytes));
        use(block, stream);
      }
      for (const CUdeviceptr block : blocks) {
        must(cuMemFree(block));
      }
    }
    must(cuStreamSynchronize(stream));
    must(cuStreamDestroy_v2(stream));
    if (full != 0) {
      must(cuMemFree(full));
    }
  }
  CHECK(shared.ran == 2400);
}
