// Allocation and free while a stream captures: no capture is invalidated by us.
#include <thread>

#include "shim/driver/captures.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

constexpr CUstreamCaptureMode kModes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                          CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                          CU_STREAM_CAPTURE_MODE_RELAXED};

void check_alive(CUstream stream) {
  CUstreamCaptureStatus status{};
  must(cuStreamIsCapturing(stream, &status));
  CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

}  // namespace

TEST_CASE("an allocation that makes the arena grow leaves a capture alive, in every mode") {
  for (const CUstreamCaptureMode mode : kModes) {
    const TestContext context;
    CUstream stream = nullptr;
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    must(cuStreamBeginCapture_v2(stream, mode));
    // The first allocation of the context makes its arena, a later one makes it grow.
    const CUdeviceptr block = allocate(4096);
    const CUdeviceptr large = allocate(48 << 20);
    std::thread([&] {
      cuCtxSetCurrent(context.handle);
      CUdeviceptr other = 0;
      CHECK(cuMemAlloc(&other, 60 << 20) == CUDA_SUCCESS);
    }).join();
    check_alive(stream);
    must(cuMemsetD8Async(block, 9, 4096, stream));
    CUgraph graph = nullptr;
    must(cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = nullptr;
    must(cuGraphInstantiateWithFlags(&exec, graph, 0));
    must(cuGraphLaunch(exec, stream));
    must(cuStreamSynchronize(stream));
    CHECK(read(block, 4096) == std::vector<unsigned char>(4096, 9));
    must(cuMemFree(large));
  }
  verify_arenas();
}

TEST_CASE("a free under a capture neither waits nor invalidates, and the block comes back later",
          "[sync]") {
  for (const CUstreamCaptureMode mode : kModes) {
    const TestContext context;
    const CUdeviceptr block = allocate(4096);
    CUstream stream = nullptr;
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    must(cuStreamBeginCapture_v2(stream, mode));
    standin_reset_calls();
    must(cuMemFree(block));
    CHECK(standin_calls("cuCtxSynchronize") == 0);
    check_alive(stream);
    CHECK(allocate(4096) != block);  // nobody has waited for the device yet
    CHECK(cuMemFree(block) == CUDA_ERROR_INVALID_VALUE);
    CUgraph graph = nullptr;
    must(cuStreamEndCapture(stream, &graph));

    // The memory is there again before anything fails for lack of it.
    std::size_t free_bytes = 0;
    must(cuMemGetInfo(&free_bytes, nullptr));
    const CUdeviceptr probe = allocate(4096);
    must(cuMemFree(probe));
    must(cuMemFree(allocate(4096)));
    verify_arenas();
    cubfc::Process* process = cubfc::Process::active();
    for (auto* each = process->contexts().first(); each != nullptr; each = each->next) {
      CHECK(each->arena.stats().bytes_retired == 0);
    }
  }
}

TEST_CASE("a capture that ends with its stream, or its context, is over") {
  const TestContext context;
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cubfc::Process::active()->captures().any_open());
  cuStreamDestroy_v2(stream);
  CHECK_FALSE(cubfc::Process::active()->captures().any_open());

  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  allocate(1000);
  CUdevice device = 0;
  must(cuDeviceGet(&device, 0));
  must(cuDevicePrimaryCtxReset_v2(device));
  CHECK_FALSE(cubfc::Process::active()->captures().any_open());
}

TEST_CASE("a capture that ends while another device is current is over") {
  const TestContext second(1);
  const TestContext first(0);
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  must(cuCtxPushCurrent(second.handle));
  CUgraph graph = nullptr;
  must(cuStreamEndCapture(stream, &graph));
  must(cuCtxPopCurrent(nullptr));
  CHECK_FALSE(cubfc::Process::active()->captures().any_open());
}

TEST_CASE("a capture that begins while a free waits for the device is not invalidated") {
  const TestContext context;
  CUstream stream = nullptr;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  standin_latency("cuCtxSynchronize", 2'000'000);
  for (int round = 0; round < 20; ++round) {
    const CUdeviceptr block = allocate(4096);
    std::thread other([&] {
      cuCtxSetCurrent(context.handle);
      CHECK(cuMemFree(block) == CUDA_SUCCESS);
    });
    must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CUgraph graph = nullptr;
    const CUresult ended = cuStreamEndCapture(stream, &graph);
    other.join();
    CHECK(ended == CUDA_SUCCESS);
  }
  standin_latency("cuCtxSynchronize", 0);
  verify_arenas();
}

TEST_CASE("what is allocated while a stream captures is freed in it, too, whatever its size") {
  const TestContext context;
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{50} << 20}) {
    CUstream stream = nullptr;
    must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    for (int round = 0; round < 20; ++round) {
      CUdeviceptr block = 0;
      if (cuMemAlloc(&block, bytes) == CUDA_SUCCESS) {
        CHECK(cuMemFree(block) == CUDA_SUCCESS);
      } else {
        CHECK(round > 0);  // the arena's blocks do not come back before the end
      }
    }
    CUgraph graph = nullptr;
    CHECK(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    cuGraphDestroy(graph);
    must(cuStreamDestroy_v2(stream));
  }
}
