// cudaStream*, cudaEvent*, capture.
#include "forward.h"

using namespace cudart;

CUDART_API cudaStreamCreate(cudaStream_t* out) {
  return WithContext([&](const Driver& driver) { return driver.cuStreamCreate(out, 0); });
}

CUDART_API cudaEventCreate(cudaEvent_t* out) {
  return cudaEventCreateWithFlags(out, cudaEventDefault);
}

// Handles, callbacks, attributes and their values have the same form on both sides.
CUDART_FORWARD(2, cudaStreamCreateWithFlags, cuStreamCreate)
CUDART_FORWARD(3, cudaStreamCreateWithPriority, cuStreamCreateWithPriority)
CUDART_FORWARD(1, cudaStreamDestroy, cuStreamDestroy_v2)
CUDART_FORWARD(1, cudaStreamSynchronize, cuStreamSynchronize)
CUDART_FORWARD(1, cudaStreamQuery, cuStreamQuery)
CUDART_FORWARD(3, cudaStreamWaitEvent, cuStreamWaitEvent)
CUDART_FORWARD(4, cudaStreamAddCallback, cuStreamAddCallback)
CUDART_FORWARD(3, cudaLaunchHostFunc, cuLaunchHostFunc)
CUDART_FORWARD(2, cudaStreamGetFlags, cuStreamGetFlags)
CUDART_FORWARD(2, cudaStreamGetPriority, cuStreamGetPriority)
CUDART_FORWARD(2, cudaStreamGetId, cuStreamGetId)
#if CUDART_VERSION >= 12080
CUDART_FORWARD(2, cudaStreamGetDevice, cuStreamGetDevice)
#endif
CUDART_FORWARD(3, cudaStreamGetAttribute, cuStreamGetAttribute)
CUDART_FORWARD(3, cudaStreamSetAttribute, cuStreamSetAttribute)
CUDART_FORWARD(2, cudaStreamCopyAttributes, cuStreamCopyAttributes)
CUDART_FORWARD(4, cudaStreamAttachMemAsync, cuStreamAttachMemAsync)

CUDART_FORWARD(2, cudaEventCreateWithFlags, cuEventCreate)
CUDART_FORWARD(1, cudaEventDestroy, cuEventDestroy_v2)
CUDART_FORWARD(2, cudaEventRecord, cuEventRecord)
CUDART_FORWARD(3, cudaEventRecordWithFlags, cuEventRecordWithFlags)
CUDART_FORWARD(1, cudaEventQuery, cuEventQuery)
CUDART_FORWARD(1, cudaEventSynchronize, cuEventSynchronize)
CUDART_FORWARD(3, cudaEventElapsedTime, cuEventElapsedTime)

CUDART_FORWARD(2, cudaStreamBeginCapture, cuStreamBeginCapture_v2)
CUDART_FORWARD(6, cudaStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph)
CUDART_FORWARD(2, cudaStreamEndCapture, cuStreamEndCapture)
CUDART_FORWARD(2, cudaStreamIsCapturing, cuStreamIsCapturing)
CUDART_FORWARD_WITHOUT_CONTEXT(1, cudaThreadExchangeStreamCaptureMode,
                               cuThreadExchangeStreamCaptureMode)

CUDART_FORWARD(2, cudaIpcGetEventHandle, cuIpcGetEventHandle)
CUDART_FORWARD(0, cudaProfilerStart, cuProfilerStart)
CUDART_FORWARD(0, cudaProfilerStop, cuProfilerStop)

CUDART_API cudaIpcOpenEventHandle(cudaEvent_t* out, cudaIpcEventHandle_t handle) {
  return WithContext([&](const Driver& driver) {
    return driver.cuIpcOpenEventHandle(out, reinterpret_cast<const CUipcEventHandle&>(handle));
  });
}
