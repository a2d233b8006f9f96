// A small CUDA runtime over the driver API: how it reaches the driver, which context is current,
// and the last error of each thread. Takes the driver from libcuda.so.1 by name, so that it runs on
// any.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <utility>

// Declared by cudaProfiler.h, which NVIDIA's wheels lack.
extern "C" {
CUresult CUDAAPI cuProfilerStart();
CUresult CUDAAPI cuProfilerStop();
}

namespace cudart {

// The driver functions that this runtime calls: declared name, requested name, requested version.
// All are among the requests of libcudart 13.0 (requests.inc).
#define CUDART_DRIVER_FUNCTIONS(F)                                                  \
  F(cuInit, cuInit, 2000)                                                           \
  F(cuDriverGetVersion, cuDriverGetVersion, 2020)                                   \
  F(cuGetErrorString, cuGetErrorString, 6000)                                       \
  F(cuGetErrorName, cuGetErrorName, 6000)                                           \
  F(cuDeviceGetCount, cuDeviceGetCount, 2000)                                       \
  F(cuDeviceGetName, cuDeviceGetName, 2000)                                         \
  F(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020)                                    \
  F(cuDeviceGetAttribute, cuDeviceGetAttribute, 2000)                               \
  F(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, 4010)                                 \
  F(cuDeviceGetUuid, cuDeviceGetUuid, 9020)                                         \
  F(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, 4000)                             \
  F(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, 11020)                    \
  F(cuDeviceGetMemPool, cuDeviceGetMemPool, 11020)                                  \
  F(cuDeviceSetMemPool, cuDeviceSetMemPool, 11020)                                  \
  F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000)                       \
  F(cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease, 7000)                  \
  F(cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset, 7000)                      \
  F(cuDevicePrimaryCtxSetFlags_v2, cuDevicePrimaryCtxSetFlags, 11000)               \
  F(cuCtxGetCurrent, cuCtxGetCurrent, 4000)                                         \
  F(cuCtxSetCurrent, cuCtxSetCurrent, 4000)                                         \
  F(cuCtxGetFlags, cuCtxGetFlags, 7000)                                             \
  F(cuCtxGetLimit, cuCtxGetLimit, 3010)                                             \
  F(cuCtxSetLimit, cuCtxSetLimit, 3010)                                             \
  F(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, 5050)                 \
  F(cuCtxSynchronize, cuCtxSynchronize, 2000)                                       \
  F(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, 4000)                             \
  F(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, 4000)                           \
  F(cuLibraryLoadData, cuLibraryLoadData, 12000)                                    \
  F(cuLibraryUnload, cuLibraryUnload, 12000)                                        \
  F(cuLibraryLoadFromFile, cuLibraryLoadFromFile, 12000)                            \
  F(cuLibraryGetKernel, cuLibraryGetKernel, 12000)                                  \
  F(cuLibraryGetKernelCount, cuLibraryGetKernelCount, 12040)                        \
  F(cuLibraryGetGlobal, cuLibraryGetGlobal, 12000)                                  \
  F(cuLibraryGetManaged, cuLibraryGetManaged, 12000)                                \
  F(cuLibraryGetUnifiedFunction, cuLibraryGetUnifiedFunction, 12000)                \
  F(cuKernelSetAttribute, cuKernelSetAttribute, 12000)                              \
  F(cuKernelGetFunction, cuKernelGetFunction, 12000)                                \
  F(cuFuncGetAttribute, cuFuncGetAttribute, 2020)                                   \
  F(cuFuncSetAttribute, cuFuncSetAttribute, 9000)                                   \
  F(cuLaunchKernelEx, cuLaunchKernelEx, 11060)                                      \
  F(cuLaunchKernel, cuLaunchKernel, 4000)                                           \
  F(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000)                     \
  F(cuLaunchHostFunc, cuLaunchHostFunc, 10000)                                      \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,                           \
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000)                     \
  F(cuMemAlloc_v2, cuMemAlloc, 3020)                                                \
  F(cuMemAllocPitch_v2, cuMemAllocPitch, 3020)                                      \
  F(cuMemAllocManaged, cuMemAllocManaged, 6000)                                     \
  F(cuMemFree_v2, cuMemFree, 3020)                                                  \
  F(cuMemGetInfo_v2, cuMemGetInfo, 3020)                                            \
  F(cuMemHostAlloc, cuMemHostAlloc, 2020)                                           \
  F(cuMemFreeHost, cuMemFreeHost, 2000)                                             \
  F(cuMemHostRegister_v2, cuMemHostRegister, 6050)                                  \
  F(cuMemHostUnregister, cuMemHostUnregister, 4000)                                 \
  F(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020)                  \
  F(cuMemHostGetFlags, cuMemHostGetFlags, 2030)                                     \
  F(cuPointerGetAttributes, cuPointerGetAttributes, 7000)                           \
  F(cuMemAllocAsync, cuMemAllocAsync, 11020)                                        \
  F(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, 11020)                        \
  F(cuMemFreeAsync, cuMemFreeAsync, 11020)                                          \
  F(cuMemPoolCreate, cuMemPoolCreate, 11020)                                        \
  F(cuMemPoolDestroy, cuMemPoolDestroy, 11020)                                      \
  F(cuMemPoolTrimTo, cuMemPoolTrimTo, 11020)                                        \
  F(cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020)                            \
  F(cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020)                            \
  F(cuMemPrefetchAsync_v2, cuMemPrefetchAsync, 12020)                               \
  F(cuMemPoolSetAccess, cuMemPoolSetAccess, 11020)                                  \
  F(cuDeviceGetGraphMemAttribute, cuDeviceGetGraphMemAttribute, 11040)              \
  F(cuDeviceSetGraphMemAttribute, cuDeviceSetGraphMemAttribute, 11040)              \
  F(cuDeviceGraphMemTrim, cuDeviceGraphMemTrim, 11040)                              \
  F(cuIpcGetEventHandle, cuIpcGetEventHandle, 4010)                                 \
  F(cuIpcOpenEventHandle, cuIpcOpenEventHandle, 4010)                               \
  F(cuIpcGetMemHandle, cuIpcGetMemHandle, 4010)                                     \
  F(cuIpcOpenMemHandle_v2, cuIpcOpenMemHandle, 11000)                               \
  F(cuIpcCloseMemHandle, cuIpcCloseMemHandle, 4010)                                 \
  F(cuMemcpy, cuMemcpy, 4000)                                                       \
  F(cuMemcpyAsync, cuMemcpyAsync, 4000)                                             \
  F(cuMemcpyPeer, cuMemcpyPeer, 4000)                                               \
  F(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000)                                     \
  F(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020)                                            \
  F(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020)                                  \
  F(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020)                                            \
  F(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020)                                  \
  F(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020)                                            \
  F(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020)                                  \
  F(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020)                              \
  F(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020)                                      \
  F(cuMemsetD8_v2, cuMemsetD8, 3020)                                                \
  F(cuMemsetD8Async, cuMemsetD8Async, 3020)                                         \
  F(cuMemsetD2D8_v2, cuMemsetD2D8, 3020)                                            \
  F(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020)                                     \
  F(cuStreamCreate, cuStreamCreate, 2000)                                           \
  F(cuStreamCreateWithPriority, cuStreamCreateWithPriority, 5050)                   \
  F(cuStreamDestroy_v2, cuStreamDestroy, 4000)                                      \
  F(cuStreamSynchronize, cuStreamSynchronize, 2000)                                 \
  F(cuStreamQuery, cuStreamQuery, 2000)                                             \
  F(cuStreamWaitEvent, cuStreamWaitEvent, 3020)                                     \
  F(cuStreamAddCallback, cuStreamAddCallback, 5000)                                 \
  F(cuStreamGetFlags, cuStreamGetFlags, 5050)                                       \
  F(cuStreamGetPriority, cuStreamGetPriority, 5050)                                 \
  F(cuStreamGetId, cuStreamGetId, 12000)                                            \
  F(cuEventCreate, cuEventCreate, 2000)                                             \
  F(cuEventDestroy_v2, cuEventDestroy, 4000)                                        \
  F(cuEventRecord, cuEventRecord, 2000)                                             \
  F(cuEventRecordWithFlags, cuEventRecordWithFlags, 11010)                          \
  F(cuEventQuery, cuEventQuery, 2000)                                               \
  F(cuEventSynchronize, cuEventSynchronize, 2000)                                   \
  F(cuEventElapsedTime, cuEventElapsedTime, 2000)                                   \
  F(cuStreamBeginCapture_v2, cuStreamBeginCapture, 10010)                           \
  F(cuStreamEndCapture, cuStreamEndCapture, 10000)                                  \
  F(cuStreamIsCapturing, cuStreamIsCapturing, 10000)                                \
  F(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode, 10010)    \
  F(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, 11040)                \
  F(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph, 12030)                \
  F(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo, 12030)                       \
  F(cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies, 12030) \
  F(cuGraphNodeGetDependencies_v2, cuGraphNodeGetDependencies, 12030)               \
  F(cuGraphAddNode_v2, cuGraphAddNode, 12030)                                       \
  F(cuGraphConditionalHandleCreate, cuGraphConditionalHandleCreate, 12030)          \
  F(cuGraphDebugDotPrint, cuGraphDebugDotPrint, 11030)                              \
  F(cuUserObjectCreate, cuUserObjectCreate, 11030)                                  \
  F(cuUserObjectRelease, cuUserObjectRelease, 11030)                                \
  F(cuGraphRetainUserObject, cuGraphRetainUserObject, 11030)                        \
  F(cuProfilerStart, cuProfilerStart, 4000)                                         \
  F(cuProfilerStop, cuProfilerStop, 4000)                                           \
  F(cuGraphCreate, cuGraphCreate, 10000)                                            \
  F(cuGraphGetNodes, cuGraphGetNodes, 10000)                                        \
  F(cuGraphLaunch, cuGraphLaunch, 10000)                                            \
  F(cuGraphUpload, cuGraphUpload, 11010)                                            \
  F(cuGraphExecDestroy, cuGraphExecDestroy, 10000)                                  \
  F(cuGraphDestroy, cuGraphDestroy, 10000)

struct Driver {
#define CUDART_MEMBER(function, name, version) decltype(&::function) function = nullptr;
  CUDART_DRIVER_FUNCTIONS(CUDART_MEMBER)
#undef CUDART_MEMBER
  decltype(&::cuGetProcAddress_v2) get_proc_address = nullptr;
};

// Loads the driver and initializes it at first use, once.
cudaError_t Load(const Driver*& out);

// Makes a context current to the thread, the primary one of its device where there is none.
cudaError_t MakeContextCurrent(const Driver& driver);

// The primary context of a device, retained once for the process.
cudaError_t PrimaryContext(const Driver& driver, int device, CUcontext* out);
void ForgetPrimaryContext(int device);

int& current_device();
cudaError_t& last_error();

// Says on stderr, once for each text, that this runtime does not serve it: cudaErrorNotSupported.
cudaError_t NotServed(const char* what);

// The numbers of both enumerations have been the same since CUDA 10.1.
inline cudaError_t ToRuntime(CUresult result) {
  return static_cast<cudaError_t>(result);
}

inline cudaError_t Remember(cudaError_t error) {
  if (error != cudaSuccess) last_error() = error;
  return error;
}

// Runs body(driver) with the driver loaded, remembering what it returns. Bodies return either a
// CUresult or a cudaError_t.
template <typename Body>
cudaError_t WithDriver(Body body) noexcept {
  const Driver* driver = nullptr;
  if (const cudaError_t error = Load(driver)) return Remember(error);
  return Remember(static_cast<cudaError_t>(body(*driver)));
}

// The same with a context current.
template <typename Body>
cudaError_t WithContext(Body body) noexcept {
  return WithDriver([&](const Driver& driver) {
    const cudaError_t error = MakeContextCurrent(driver);
    return error == cudaSuccess ? static_cast<cudaError_t>(body(driver)) : error;
  });
}

}  // namespace cudart

#define CUDART_API extern "C" cudaError_t
