// What the software driver promises of work: streams, events, capture, graphs, kernels, pools.
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "catch.h"
#include "standin.h"
#include "test_device.h"

using standin_test::Device;

namespace {

CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, flags) == CUDA_SUCCESS);
  return stream;
}

unsigned ReadWord(CUdeviceptr address) {
  unsigned value = 0;
  const CUstream stream = NewStream();  // behind no other stream
  REQUIRE(cuMemcpyDtoHAsync_v2(&value, address, 4, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
  return value;
}

CUstreamCaptureStatus StatusOf(CUstream stream) {
  CUstreamCaptureStatus status{};
  REQUIRE(cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS);
  return status;
}

}  // namespace

TEST_CASE("work is done after the call that asks for it returns, in its stream's order") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUstream stream = NewStream();
  REQUIRE(cuMemsetD32Async(memory, 1, 1, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  standin_hold_stream(stream);
  REQUIRE(cuMemsetD32Async(memory, 2, 1, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(memory, 3, 1, stream) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
  CHECK(ReadWord(memory) == 1);
  standin_release_stream(stream);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(ReadWord(memory) == 3);
}

TEST_CASE("memory that is reused while a stream may still write to it is overwritten") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(8192);
  const CUstream stream = NewStream();
  standin_hold_stream(stream);
  REQUIRE(cuMemsetD32Async(memory, 0xbad, 1, stream) == CUDA_SUCCESS);
  // A careless allocator hands the block out again; its new owner writes on another stream.
  const CUstream owner = NewStream();
  REQUIRE(cuMemsetD32Async(memory, 42, 1, owner) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(owner) == CUDA_SUCCESS);
  CHECK(ReadWord(memory) == 42);
  standin_release_stream(stream);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(ReadWord(memory) == 0xbad);
}

TEST_CASE("cuMemFree returns when all work of the context is done") {
  const Device device;
  const CUdeviceptr target = device.Allocate(4);
  const CUdeviceptr other = device.Allocate(4);
  const CUstream stream = NewStream();
  standin_hold_stream(stream);
  REQUIRE(cuMemsetD32Async(target, 5, 1, stream) == CUDA_SUCCESS);
  std::atomic<bool> freed{false};
  std::thread freeing([&] {
    CHECK(cuCtxSetCurrent(device.context()) == CUDA_SUCCESS);
    CHECK(cuMemFree_v2(other) == CUDA_SUCCESS);
    freed = true;
  });
  while (!freed && standin_waiting_calls() == 0) std::this_thread::yield();
  CHECK_FALSE(freed);
  standin_release_stream(stream);
  freeing.join();
  CHECK(cuStreamQuery(stream) == CUDA_SUCCESS);
}

TEST_CASE("the legacy stream waits for blocking streams and not for others") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(12);
  const CUstream blocking = NewStream(CU_STREAM_DEFAULT);
  const CUstream other = NewStream();
  standin_hold_stream(other);
  REQUIRE(cuMemsetD32Async(memory, 1, 1, other) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32_v2(memory + 4, 2, 1) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);  // does not hang
  CHECK(ReadWord(memory + 4) == 2);
  standin_release_stream(other);
  standin_hold_stream(blocking);
  REQUIRE(cuMemsetD32Async(memory + 8, 3, 1, blocking) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32_v2(memory + 4, 4, 1) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY);
  standin_release_stream(blocking);
  REQUIRE(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(ReadWord(memory + 4) == 4);
}

TEST_CASE("the per-thread default stream is another stream than the legacy one") {
  const Device device;
  unsigned long long legacy = 0;
  unsigned long long per_thread = 0;
  unsigned long long by_handle = 0;
  REQUIRE(cuStreamGetId(nullptr, &legacy) == CUDA_SUCCESS);
  REQUIRE(cuStreamGetId_ptsz(nullptr, &per_thread) == CUDA_SUCCESS);
  REQUIRE(cuStreamGetId(CU_STREAM_PER_THREAD, &by_handle) == CUDA_SUCCESS);
  CHECK(per_thread != legacy);
  CHECK(per_thread == by_handle);
}

TEST_CASE("an event is done when the work before it is, and orders other streams behind it") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUstream first = NewStream();
  const CUstream second = NewStream();
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);  // never recorded
  standin_hold_stream(first);
  REQUIRE(cuMemsetD32Async(memory, 1, 1, first) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(event, first) == CUDA_SUCCESS);
  REQUIRE(cuStreamWaitEvent(second, event, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(memory, 2, 1, second) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  CHECK(cuStreamQuery(second) == CUDA_ERROR_NOT_READY);
  standin_release_stream(first);
  REQUIRE(cuStreamSynchronize(second) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);
  CHECK(ReadWord(memory) == 2);
}

#if CUDA_VERSION >= 12050
TEST_CASE("a context's event waits for streams that block nobody too") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUstream stream = NewStream();
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  standin_hold_stream(stream);
  REQUIRE(cuMemsetD32Async(memory, 1, 1, stream) == CUDA_SUCCESS);
  REQUIRE(cuCtxRecordEvent(device.context(), event) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  standin_release_stream(stream);
  REQUIRE(cuEventSynchronize(event) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(stream) == CUDA_SUCCESS);
}

TEST_CASE("recording a context's event ends the validity of a capture, in every mode") {
  const Device device;
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, 0) == CUDA_SUCCESS);
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    const CUstream stream = NewStream();
    REQUIRE(cuStreamBeginCapture_v2(stream, mode) == CUDA_SUCCESS);
    CHECK(cuCtxRecordEvent(device.context(), event) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(StatusOf(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CUgraph graph = nullptr;
    CHECK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
}
#endif

TEST_CASE("captured work runs when its graph is launched, each time") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUstream stream = NewStream();
  REQUIRE(cuMemsetD32Async(memory, 1, 1, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(memory, 2, 1, stream) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(ReadWord(memory) == 1);
  CUgraphExec exec = nullptr;
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(ReadWord(memory) == 2);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
}

TEST_CASE("an allocation during a global capture is refused to every thread and spoils it") {
  const Device device;
  const CUstream stream = NewStream();
  CUdeviceptr out = 0;
  REQUIRE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  std::thread([&] {
    cuCtxSetCurrent(device.context());
    CHECK(cuMemAlloc_v2(&out, 16) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  CHECK(StatusOf(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(cuMemAlloc_v2(&out, 16) == CUDA_SUCCESS);
}

TEST_CASE("a thread in relaxed mode may allocate during any capture") {
  const Device device;
  const CUstream stream = NewStream();
  CUdeviceptr out = 0;
  REQUIRE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  REQUIRE(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(cuMemAlloc_v2(&out, 16) == CUDA_SUCCESS);
  CHECK(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
}

TEST_CASE("a thread-local capture hinders its own thread only") {
  const Device device;
  const CUstream stream = NewStream();
  CUdeviceptr out = 0;
  REQUIRE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  std::thread([&] {
    cuCtxSetCurrent(device.context());
    CHECK(cuMemAlloc_v2(&out, 16) == CUDA_SUCCESS);
  }).join();
  CHECK(StatusOf(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(cuMemFree_v2(out) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST_CASE("the legacy stream is refused while a blocking stream captures") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUstream stream = NewStream(CU_STREAM_DEFAULT);
  REQUIRE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  CHECK(cuMemsetD32Async(memory, 1, 1, nullptr) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(StatusOf(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
}

TEST_CASE("a capture forks and joins by events, and must be joined") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUstream first = NewStream();
  const CUstream second = NewStream();
  CUevent fork = nullptr;
  CUevent join = nullptr;
  REQUIRE(cuEventCreate(&fork, 0) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&join, 0) == CUDA_SUCCESS);
  for (const bool joined : {true, false}) {
    REQUIRE(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(fork, first) == CUDA_SUCCESS);
    REQUIRE(cuStreamWaitEvent(second, fork, 0) == CUDA_SUCCESS);
    CHECK(StatusOf(second) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    REQUIRE(cuMemsetD32Async(memory, 1, 1, second) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(join, second) == CUDA_SUCCESS);
    if (joined) REQUIRE(cuStreamWaitEvent(first, join, 0) == CUDA_SUCCESS);
    CUgraph graph = nullptr;
    CHECK(cuStreamEndCapture(first, &graph) ==
          (joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
    CHECK(StatusOf(second) == CU_STREAM_CAPTURE_STATUS_NONE);
  }
}

TEST_CASE("a capture ends with its stream") {
  const Device device;
  const CUstream stream = NewStream();
  REQUIRE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  REQUIRE(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
  CUdeviceptr out = 0;
  CHECK(cuMemAlloc_v2(&out, 16) == CUDA_SUCCESS);
}

TEST_CASE("cuMemFreeAsync frees when its stream gets there, and once") {
  const Device device;
  const CUstream stream = NewStream();
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAllocAsync(&memory, 4096, stream) == CUDA_SUCCESS);
  standin_hold_stream(stream);
  REQUIRE(cuMemFreeAsync(memory, stream) == CUDA_SUCCESS);
  CHECK(cuMemFreeAsync(memory, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(standin_live_bytes(0) == 4096);
  standin_release_stream(stream);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(standin_live_bytes(0) == 0);
}

TEST_CASE("a known kernel's effect is that of its source, an unknown one's is none") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4096);
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  CUfunction unknown = nullptr;
  REQUIRE(cuModuleLoadData(&module, "image") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&fill, module, "fill") == CUDA_SUCCESS);
  REQUIRE(cuModuleGetFunction(&unknown, module, "_Z7unknownv") == CUDA_SUCCESS);
  void* data = reinterpret_cast<void*>(memory);
  unsigned value = 77;
  std::uint64_t count = 1024;
  void* arguments[] = {&data, &value, &count};
  REQUIRE(cuLaunchKernel(fill, 4, 1, 1, 256, 1, 1, 0, nullptr, arguments, nullptr) == CUDA_SUCCESS);
  value = 0;  // arguments are copied by the launch
  REQUIRE(cuLaunchKernel(unknown, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(ReadWord(memory + 4092) == 77);
}

TEST_CASE("a context is destroyed with work queued, held or not") {
  const Device device;
  CUcontext mine = nullptr;
  REQUIRE(cuCtxCreate_v2(&mine, 0, 0) == CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc_v2(&memory, 4096) == CUDA_SUCCESS);
  const CUstream stream = NewStream();
  standin_hold_stream(stream);
  for (int i = 0; i < 10; ++i) REQUIRE(cuMemsetD8Async(memory, 1, 4096, stream) == CUDA_SUCCESS);
  CHECK(cuCtxDestroy_v2(mine) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(stream) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}
