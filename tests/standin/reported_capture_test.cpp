// What is reported of real drivers about calls during a stream's capture: which are refused in
// which mode and on which thread, and whether the capture can be ended with a graph after it.
#include <cuda.h>

#include <string>
#include <thread>
#include <vector>

#include "reported_test.h"

using namespace standin_test;

namespace {

constexpr CUresult kUnsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
constexpr CUresult kImplicit = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;

CUresult Ended(CUstream stream) {
  CUgraph graph = nullptr;
  const CUresult result = cuStreamEndCapture(stream, &graph);
  if (graph) cuGraphDestroy(graph);
  return result;
}

// What a call gave, and what the end of the capture gave after it.
struct Outcome {
  CUresult of_call;
  CUresult of_end;
};

template <typename Call>
Outcome WhileCapturing(CUstreamCaptureMode mode, unsigned flags, Call call) {
  const CUstream stream = NewStream(flags);
  Must(cuStreamBeginCapture_v2(stream, mode));
  const CUresult of_call = call(stream);
  const Outcome outcome{of_call, Ended(stream)};
  Must(cuStreamDestroy_v2(stream));
  return outcome;
}

// On another thread with the same context, if so wished.
template <typename Call>
CUresult On(bool other_thread, CUcontext context, Call call) {
  if (!other_thread) return call();
  CUresult result = CUDA_ERROR_UNKNOWN;
  std::thread([&] {
    cuCtxSetCurrent(context);
    result = call();
  }).join();
  return result;
}

// What there is beside the capture.
struct Uncaptured {
  CUstream stream = NewStream();
  CUevent event = NewEvent();
  CUmemoryPool pool = nullptr;

  Uncaptured() {
    Must(cuDeviceGetDefaultMemPool(&pool, 0));
    Must(cuEventRecord(event, stream));
    Must(cuStreamSynchronize(stream));
  }
};

struct Row {
  const char* function;
  CUresult (*call)(const Uncaptured&);
};

const Row kRows[] = {
    {"cuStreamQuery", [](const Uncaptured& it) { return cuStreamQuery(it.stream); }},
    {"cuStreamSynchronize", [](const Uncaptured& it) { return cuStreamSynchronize(it.stream); }},
    {"cuEventQuery", [](const Uncaptured& it) { return cuEventQuery(it.event); }},
    {"cuEventSynchronize", [](const Uncaptured& it) { return cuEventSynchronize(it.event); }},
    {"cuMemPoolGetAttribute",
     [](const Uncaptured& it) {
       cuuint64_t bytes = 0;
       return cuMemPoolGetAttribute(it.pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes);
     }},
    {"cuMemPoolSetAttribute",
     [](const Uncaptured& it) {
       cuuint64_t bytes = 0;
       return cuMemPoolSetAttribute(it.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes);
     }},
};

struct Column {
  CUstreamCaptureMode mode;
  bool other_thread;
  Outcome outcome;
};

constexpr Outcome kRefusedAndLost{kUnsupported, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED};
constexpr Outcome kAllowed{CUDA_SUCCESS, CUDA_SUCCESS};
constexpr Column kColumns[] = {
    {CU_STREAM_CAPTURE_MODE_GLOBAL, false, kRefusedAndLost},
    {CU_STREAM_CAPTURE_MODE_GLOBAL, true, kRefusedAndLost},
    {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false, kRefusedAndLost},
    {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, true, kAllowed},
    {CU_STREAM_CAPTURE_MODE_RELAXED, false, kAllowed},
    {CU_STREAM_CAPTURE_MODE_RELAXED, true, kAllowed},
};

constexpr CUstreamCaptureMode kAllModes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                             CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                             CU_STREAM_CAPTURE_MODE_RELAXED};

}  // namespace

TEST_CASE(
    "reported: to ask for other streams, events or pools is unsafe: a capture is lost by it") {
  const Device device;
  const Uncaptured uncaptured;
  for (const Row& row : kRows) {
    for (const Column& column : kColumns) {
      INFO(row.function << ", mode " << column.mode << ", other thread " << column.other_thread);
      const Outcome outcome = WhileCapturing(column.mode, CU_STREAM_NON_BLOCKING, [&](CUstream) {
        return On(column.other_thread, device.context(), [&] { return row.call(uncaptured); });
      });
      CHECK(outcome.of_call == column.outcome.of_call);
      CHECK(outcome.of_end == column.outcome.of_end);
    }
  }
}

TEST_CASE("reported: in the relaxed mode memory is allocated and freed on every thread") {
  const Device device;
  for (const bool other_thread : {false, true}) {
    const Outcome outcome =
        WhileCapturing(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_NON_BLOCKING, [&](CUstream) {
          return On(other_thread, device.context(), [] {
            CUdeviceptr memory = 0;
            const CUresult error = cuMemAlloc_v2(&memory, 512);
            return error ? error : cuMemFree_v2(memory);
          });
        });
    CHECK(outcome.of_call == CUDA_SUCCESS);
    CHECK(outcome.of_end == CUDA_SUCCESS);
  }
}

TEST_CASE(
    "observed: beside a global capture a stream allocates nothing, beside a relaxed one it does") {
  const Device device;
  const Uncaptured uncaptured;
  for (const CUstreamCaptureMode mode : kAllModes) {
    CUdeviceptr memory = 0;
    const Outcome outcome = WhileCapturing(mode, CU_STREAM_NON_BLOCKING, [&](CUstream) {
      return cuMemAllocAsync(&memory, 512, uncaptured.stream);
    });
    const bool relaxed = mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    CHECK(outcome.of_call == (relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
    CHECK((outcome.of_end == CUDA_SUCCESS) == relaxed);
    if (relaxed) {
      Must(cuMemFreeAsync(memory, uncaptured.stream));
    }
  }
}

TEST_CASE("reported: no bytes are allocated in stream order in a capture of any mode") {
  const Device device;
  for (const CUstreamCaptureMode mode : kAllModes) {
    CUdeviceptr memory = 0;
    const Outcome outcome = WhileCapturing(mode, CU_STREAM_NON_BLOCKING, [&](CUstream stream) {
      return cuMemAllocAsync(&memory, 0, stream);
    });
    CHECK(outcome.of_call == CUDA_SUCCESS);
    CHECK(outcome.of_end == CUDA_SUCCESS);
  }
}

TEST_CASE("reported: to wait for the context is refused in a capture of any mode") {
  const Device device;
  for (const CUstreamCaptureMode mode : kAllModes) {
    const Outcome outcome =
        WhileCapturing(mode, CU_STREAM_NON_BLOCKING, [](CUstream) { return cuCtxSynchronize(); });
    CHECK(outcome.of_call == kUnsupported);
  }
}

TEST_CASE(
    "reported: while a blocking stream captures, the legacy stream cannot be used, nor by copies") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(512);
  std::vector<char> host(512);
  const auto lost_by = [&](CUstreamCaptureMode mode, auto call) {
    const Outcome outcome =
        WhileCapturing(mode, CU_STREAM_DEFAULT, [&](CUstream) { return call(); });
    CHECK(outcome.of_call == kImplicit);
    CHECK(outcome.of_end == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  };
  for (const CUstreamCaptureMode mode : kAllModes) {
    lost_by(mode, [&] { return cuMemsetD8Async(memory, 1, 512, CU_STREAM_LEGACY); });
  }
  for (const auto mode : {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    lost_by(mode, [&] { return cuMemcpyHtoD_v2(memory, host.data(), 512); });
    lost_by(mode, [&] { return cuMemcpyDtoH_v2(host.data(), memory, 512); });
    lost_by(mode, [&] { return cuMemcpyDtoD_v2(memory, memory, 512); });
    lost_by(mode, [&] { return cuMemsetD8_v2(memory, 1, 512); });
  }
}

TEST_CASE("reported: a capture that is begun twice or ended unbegun is an illegal state") {
  const Device device;
  const CUstream stream = NewStream();
  CHECK(Ended(stream) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuStreamEndCapture(stream, nullptr) == CUDA_ERROR_ILLEGAL_STATE);
  Must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(Ended(stream) == CUDA_SUCCESS);
}

TEST_CASE("reported: a capture survives the end of a stream that has joined it and gone back") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(512);
  const CUevent event = NewEvent();
  const Outcome outcome =
      WhileCapturing(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING, [&](CUstream origin) {
        const CUstream fork = NewStream();
        Must(cuEventRecord(event, origin));
        Must(cuStreamWaitEvent(fork, event, 0));
        Must(cuMemsetD8Async(memory, 1, 512, fork));
        Must(cuEventRecord(event, fork));
        Must(cuStreamWaitEvent(origin, event, 0));
        return cuStreamDestroy_v2(fork);
      });
  CHECK(outcome.of_call == CUDA_SUCCESS);
  CHECK(outcome.of_end == CUDA_SUCCESS);
}

TEST_CASE("reported: what another thread does on another device harms no capture, and is done") {
  const Device device;
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED}) {
    const Outcome outcome = WhileCapturing(mode, CU_STREAM_NON_BLOCKING, [&](CUstream) {
      CUresult worst = CUDA_SUCCESS;
      std::thread([&] {
        const Device second(1);
        const auto note = [&](CUresult result) { worst = result ? result : worst; };
        CUdeviceptr memory = 0;
        unsigned char byte = 0;
        note(cuMemAlloc_v2(&memory, 512));
        note(cuMemsetD8_v2(memory, 1, 512));
        note(cuMemcpyDtoH_v2(&byte, memory, 1));
        note(cuCtxSynchronize());
        note(cuStreamSynchronize(nullptr));
        note(cuMemFree_v2(memory));
      }).join();
      return worst;
    });
    CHECK(outcome.of_call == CUDA_SUCCESS);
    CHECK(outcome.of_end == CUDA_SUCCESS);
  }
}

TEST_CASE("reported: so it does where that stream has joined the one that it came from") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(512);
  const CUevent event = NewEvent();
  const auto follow = [&](CUstream from, CUstream to) {
    Must(cuEventRecord(event, from));
    Must(cuStreamWaitEvent(to, event, 0));
  };
  for (const bool joined : {true, false}) {
    const Outcome outcome =
        WhileCapturing(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING, [&](CUstream origin) {
          const CUstream fork = NewStream();
          const CUstream fork_of_it = NewStream();
          follow(origin, fork);
          follow(fork, fork_of_it);
          Must(cuMemsetD8Async(memory, 1, 512, fork_of_it));
          if (!joined) return cuStreamDestroy_v2(fork_of_it);
          follow(fork_of_it, fork);
          Must(cuStreamDestroy_v2(fork_of_it));
          follow(fork, origin);
          return cuStreamDestroy_v2(fork);
        });
    CHECK((outcome.of_end == CUDA_SUCCESS) == joined);
  }
}

#if CUDA_VERSION >= 12080
TEST_CASE("reported: a batch of copies is refused in a capture, which goes on") {
  const Device device;
  CUdeviceptr to = device.Allocate(512);
  CUdeviceptr from = device.Allocate(512);
  std::size_t bytes = 512;
  std::size_t first = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  const Outcome outcome =
      WhileCapturing(CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_NON_BLOCKING, [&](CUstream stream) {
        std::size_t failed = 0;
        return cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attributes, &first, 1, &failed, stream);
      });
  CHECK(outcome.of_call == kUnsupported);
  CHECK(outcome.of_end == CUDA_SUCCESS);
}
#endif
