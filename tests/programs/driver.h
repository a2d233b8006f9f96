// The CUDA driver as the programs of this folder see it: a table of its functions, filled in one of
// the three ways in which real programs reach it. Knows nothing of cubfc, and is told nothing of
// it.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <string>
#include <string_view>

// cuda.h turns cuMemAlloc into cuMemAlloc_v2 and so on: members and look-ups follow it.
// clang-format off
#define PROGRAM_DRIVER_FUNCTIONS(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuDeviceGet) X(cuDeviceGetCount) \
  X(cuDeviceTotalMem) X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain) \
  X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset) X(cuDevicePrimaryCtxGetState) \
  X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxDestroy) \
  X(cuCtxSynchronize) X(cuMemAlloc) X(cuMemAllocPitch) X(cuMemFree) X(cuMemGetInfo) \
  X(cuMemGetAddressRange) X(cuPointerGetAttribute) X(cuPointerGetAttributes) X(cuMemAllocHost) \
  X(cuMemFreeHost) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuMemcpyDtoD) X(cuMemcpyHtoDAsync) \
  X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8) X(cuMemsetD32) X(cuMemsetD8Async) \
  X(cuMemsetD32Async) X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) \
  X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle) \
  X(cuGetProcAddress) X(cuDeviceCanAccessPeer) X(cuCtxEnablePeerAccess) X(cuCtxDisablePeerAccess) \
  X(cuMemAllocManaged) X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) \
  X(cuMemAllocAsync) X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync) X(cuMemPoolCreate) \
  X(cuMemPoolDestroy) X(cuMemPoolTrimTo) X(cuMemCreate) X(cuMemRelease) X(cuMemAddressReserve) \
  X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) \
  X(cuMemGetAllocationGranularity) X(cuMemRetainAllocationHandle) \
  X(cuMemGetHandleForAddressRange) X(cuPointerSetAttribute) X(cuMemcpyPeer) X(cuLaunchHostFunc) \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuStreamWaitEvent) \
  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamIsCapturing) \
  X(cuThreadExchangeStreamCaptureMode) X(cuGraphInstantiate) X(cuGraphLaunch) X(cuGraphDestroy) \
  X(cuGraphExecDestroy) X(cuEventSynchronize) X(cuMemcpy2D) X(cuMemcpy2DAsync)
// clang-format on

// CUDA 13 gave the base name other parameters; every driver still has this form.
extern "C" CUresult CUDAAPI cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device);

namespace programs {

struct Driver {
#define PROGRAM_MEMBER(function) decltype(&::function) function = nullptr;
  PROGRAM_DRIVER_FUNCTIONS(PROGRAM_MEMBER)
#undef PROGRAM_MEMBER
  decltype(&::cuCtxCreate_v2) create_context = nullptr;
};

/// How the table is filled: by the dynamic linker, by dlopen and dlsym, or by cuGetProcAddress.
enum class Via { kLinked, kDlsym, kGetProcAddress };

/// Takes `--via=linked|dlsym|getproc` out of the arguments, wherever it stands; linked when it is
/// not there. Ends the program with status 2 for another word.
Via take_via(int& argc, char** argv);

/// The table. Ends the program with status 77 and a message when there is no driver, with 1 when a
/// function is not found.
Driver open_driver(Via via);

/// "CUDA_ERROR_OUT_OF_MEMORY".
std::string name_of(const Driver& driver, CUresult result);

/// Prints "what: CUDA_SUCCESS" on stdout.
void print_result(const Driver& driver, std::string_view what, CUresult result);

/// Prints "what: yes" or "what: no" on stdout.
void print_truth(std::string_view what, bool truth);

/// Ends the program with status 1 and a message on stderr unless the call succeeded.
void must(const Driver& driver, std::string_view what, CUresult result);

/// cuInit, and the primary context of a device made current.
CUcontext use_device(const Driver& driver, int ordinal);

/// A whole number in an argument; ends the program with status 2 for anything else.
std::uint64_t number_argument(std::string_view option, const char* text);

}  // namespace programs
