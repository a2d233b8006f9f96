// cudaStream*, cudaEvent*, capture.
#include "runtime.h"

using namespace cudart;

CUDART_API cudaStreamCreate(cudaStream_t* out) {
  return WithContext([&](const Driver& driver) { return driver.cuStreamCreate(out, 0); });
}

CUDART_API cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return WithContext([&](const Driver& driver) { return driver.cuStreamCreate(out, flags); });
}

CUDART_API cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) {
  return WithContext([&](const Driver& driver) {
    return driver.cuStreamCreateWithPriority(out, flags, priority);
  });
}

CUDART_API cudaStreamDestroy(cudaStream_t stream) {
  return WithContext([&](const Driver& driver) { return driver.cuStreamDestroy_v2(stream); });
}

CUDART_API cudaStreamSynchronize(cudaStream_t stream) {
  return WithContext([&](const Driver& driver) { return driver.cuStreamSynchronize(stream); });
}

CUDART_API cudaStreamQuery(cudaStream_t stream) {
  return WithContext([&](const Driver& driver) { return driver.cuStreamQuery(stream); });
}

CUDART_API cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuStreamWaitEvent(stream, event, flags); });
}

CUDART_API cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                 unsigned flags) {
  // Both callback types have the same binary form.
  const auto driver_callback = reinterpret_cast<CUstreamCallback>(callback);
  return WithContext([&](const Driver& driver) {
    return driver.cuStreamAddCallback(stream, driver_callback, data, flags);
  });
}

CUDART_API cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuLaunchHostFunc(stream, function, data); });
}

CUDART_API cudaStreamGetFlags(cudaStream_t stream, unsigned* out) {
  return WithContext([&](const Driver& driver) { return driver.cuStreamGetFlags(stream, out); });
}

CUDART_API cudaStreamGetPriority(cudaStream_t stream, int* out) {
  return WithContext([&](const Driver& driver) { return driver.cuStreamGetPriority(stream, out); });
}

CUDART_API cudaStreamGetId(cudaStream_t stream, unsigned long long* out) {
  return WithContext([&](const Driver& driver) { return driver.cuStreamGetId(stream, out); });
}

CUDART_API cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  return WithContext([&](const Driver& driver) { return driver.cuEventCreate(out, flags); });
}

CUDART_API cudaEventCreate(cudaEvent_t* out) {
  return cudaEventCreateWithFlags(out, cudaEventDefault);
}

CUDART_API cudaEventDestroy(cudaEvent_t event) {
  return WithContext([&](const Driver& driver) { return driver.cuEventDestroy_v2(event); });
}

CUDART_API cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return WithContext([&](const Driver& driver) { return driver.cuEventRecord(event, stream); });
}

CUDART_API cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuEventRecordWithFlags(event, stream, flags); });
}

CUDART_API cudaEventQuery(cudaEvent_t event) {
  return WithContext([&](const Driver& driver) { return driver.cuEventQuery(event); });
}

CUDART_API cudaEventSynchronize(cudaEvent_t event) {
  return WithContext([&](const Driver& driver) { return driver.cuEventSynchronize(event); });
}

CUDART_API cudaEventElapsedTime(float* out, cudaEvent_t start, cudaEvent_t end) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuEventElapsedTime(out, start, end); });
}

CUDART_API cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return WithContext([&](const Driver& driver) {
    return driver.cuStreamBeginCapture_v2(stream, static_cast<CUstreamCaptureMode>(mode));
  });
}

CUDART_API cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  return WithContext([&](const Driver& driver) { return driver.cuStreamEndCapture(stream, out); });
}

CUDART_API cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
  return WithContext([&](const Driver& driver) {
    return driver.cuStreamIsCapturing(stream, reinterpret_cast<CUstreamCaptureStatus*>(out));
  });
}

CUDART_API cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return WithDriver([&](const Driver& driver) {
    return driver.cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode));
  });
}

CUDART_API cudaIpcGetEventHandle(cudaIpcEventHandle_t* out, cudaEvent_t event) {
  return WithContext([&](const Driver& driver) {
    return driver.cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(out), event);
  });
}

CUDART_API cudaIpcOpenEventHandle(cudaEvent_t* out, cudaIpcEventHandle_t handle) {
  return WithContext([&](const Driver& driver) {
    return driver.cuIpcOpenEventHandle(out, reinterpret_cast<const CUipcEventHandle&>(handle));
  });
}

CUDART_API cudaProfilerStart() {
  return WithContext([](const Driver& driver) { return driver.cuProfilerStart(); });
}

CUDART_API cudaProfilerStop() {
  return WithContext([](const Driver& driver) { return driver.cuProfilerStop(); });
}
