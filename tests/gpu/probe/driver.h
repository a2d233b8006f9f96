// The CUDA driver as the probe sees it: opened at run time, so that the probe starts on any
// machine.
#pragma once

#include <cuda.h>

#include <string>

// clang-format off
#define PROBE_DRIVER_FUNCTIONS(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuDeviceGet) X(cuDeviceGetCount) \
  X(cuDeviceGetName) X(cuDeviceTotalMem) X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain) \
  X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset) X(cuDeviceCanAccessPeer) \
  X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxDestroy) \
  X(cuCtxGetId) X(cuCtxSynchronize) X(cuCtxEnablePeerAccess) X(cuCtxDisablePeerAccess) \
  X(cuMemAlloc) X(cuMemAllocPitch) X(cuMemAllocManaged) X(cuMemFree) X(cuMemGetInfo) \
  X(cuMemGetAddressRange) X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemAllocHost) \
  X(cuMemFreeHost) X(cuMemHostRegister) X(cuMemHostUnregister) X(cuPointerGetAttribute) \
  X(cuPointerGetAttributes) X(cuPointerSetAttribute) X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) \
  X(cuIpcCloseMemHandle) X(cuMemCreate) X(cuMemRelease) X(cuMemAddressReserve) \
  X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) \
  X(cuMemGetAllocationGranularity) X(cuMemRetainAllocationHandle) \
  X(cuMemGetHandleForAddressRange) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyHtoDAsync) \
  X(cuMemsetD8) X(cuMemsetD8Async) X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) \
  X(cuStreamQuery) X(cuStreamWaitEvent) X(cuStreamBeginCapture) X(cuStreamEndCapture) \
  X(cuStreamIsCapturing) X(cuGraphDestroy) X(cuLaunchHostFunc) X(cuEventCreate) \
  X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) X(cuEventElapsedTime) \
  X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuGetExportTable) \
  X(cuGetProcAddress) X(cuMemHostAlloc) X(cuDeviceGetDefaultMemPool) X(cuMemPoolCreate) \
  X(cuMemPoolDestroy) X(cuMemPoolSetAccess) X(cuMemPoolGetAttribute) X(cuMemPoolSetAttribute) \
  X(cuMemAllocFromPoolAsync) X(cuMemcpyDtoDAsync) X(cuMemcpyPeerAsync) X(cuLibraryLoadData) \
  X(cuLibraryGetModule) X(cuLibraryUnload) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) \
  X(cuGraphExecDestroy) X(cuDeviceGetGraphMemAttribute) X(cuDeviceGraphMemTrim) \
  X(cuMemImportFromShareableHandle) X(cuMipmappedArrayCreate) X(cuMipmappedArrayDestroy)
// clang-format on

namespace probe {

struct Driver {
#define PROBE_MEMBER(function) decltype(&::function) function = nullptr;
  PROBE_DRIVER_FUNCTIONS(PROBE_MEMBER)
#undef PROBE_MEMBER
  // Not in the headers of every toolkit, or there with other parameters.
  CUresult(CUDAAPI* create_context)(CUcontext*, unsigned, CUdevice) = nullptr;
  CUresult(CUDAAPI* record_context_event)(CUcontext, CUevent) = nullptr;  // driver 12.5
  CUresult(CUDAAPI* wait_context_event)(CUcontext, CUevent) = nullptr;    // driver 12.5
  CUresult(CUDAAPI* alloc_32_bit)(unsigned*, unsigned) = nullptr;         // cuMemAlloc of CUDA 2
  CUresult(CUDAAPI* kernel_name)(const char**, CUkernel) = nullptr;       // driver 12.3
  CUresult(CUDAAPI* old_proc_address)(const char*, void**, int, cuuint64_t) = nullptr;
#if CUDA_VERSION >= 12080
  CUresult(CUDAAPI* copy_batch)(CUdeviceptr*, CUdeviceptr*, size_t*, size_t, CUmemcpyAttributes*,
                                size_t*, size_t, CUstream) = nullptr;  // driver 13.0
#endif
  void* library = nullptr;
};

/// Opens libcuda.so.1. Says why on failure and leaves `library` NULL; a function that this driver
/// lacks is NULL. Calls nothing of the driver.
Driver open_driver(std::string& failure);

/// The names of the functions that the driver lacks and the probe cannot do without; empty when
/// fine.
std::string missing_functions(const Driver& driver);

/// "CUDA_ERROR_OUT_OF_MEMORY"; the number where the driver has no name for it.
std::string name_of(const Driver& driver, CUresult result);

}  // namespace probe
