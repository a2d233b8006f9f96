// Functions that a program may ask for, and that there is nothing for here: they say so.
#include "entry_point.h"

namespace standin {
namespace {

template <typename... Arguments>
CUresult Unsupported(const Arguments&... /*ignored*/) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace
}  // namespace standin

using namespace standin;

// The parameters are nobody's business, and headers differ in whether they declare it: so it has a
// name of its own in C++.
#define UNSUPPORTED_SYMBOL(symbol)                                                           \
  extern "C" CUresult standin_unsupported_##symbol() __asm__(#symbol);                       \
  namespace {                                                                                \
  EntryPoint entry_##symbol(#symbol, reinterpret_cast<void*>(&standin_unsupported_##symbol), \
                            Needs::kInit, DefaultStream::kLegacy);                           \
  }                                                                                          \
  extern "C" CUresult standin_unsupported_##symbol() {                                       \
    return entry_##symbol.Call([] { return CUDA_ERROR_NOT_SUPPORTED; });                     \
  }

#define UNSUPPORTED(symbol, parameters, arguments) \
  STANDIN_EXPORT(symbol, Unsupported, parameters, arguments, kInit, kLegacy)

// Textures of launches before CUDA 4.
UNSUPPORTED(cuParamSetTexRef, (CUfunction f, int unit, CUtexref texture), (f, unit, texture))

// Profiles in files, deprecated since CUDA 11.
UNSUPPORTED(cuProfilerInitialize, (const char* from, const char* to, int mode), (from, to, mode))

// Graphics, external memory and semaphores, multicast, checkpoints, logs, tensor maps, sparse
// arrays, batches, and what other systems have.
UNSUPPORTED_SYMBOL(cuArrayGetMemoryRequirements)
UNSUPPORTED_SYMBOL(cuArrayGetPlane)
UNSUPPORTED_SYMBOL(cuArrayGetSparseProperties)
UNSUPPORTED_SYMBOL(cuCheckpointProcessCheckpoint)
UNSUPPORTED_SYMBOL(cuCheckpointProcessGetRestoreThreadId)
UNSUPPORTED_SYMBOL(cuCheckpointProcessGetState)
UNSUPPORTED_SYMBOL(cuCheckpointProcessLock)
UNSUPPORTED_SYMBOL(cuCheckpointProcessRestore)
UNSUPPORTED_SYMBOL(cuCheckpointProcessUnlock)
UNSUPPORTED_SYMBOL(cuDestroyExternalMemory)
UNSUPPORTED_SYMBOL(cuDestroyExternalSemaphore)
UNSUPPORTED_SYMBOL(cuDeviceGetHostAtomicCapabilities)
UNSUPPORTED_SYMBOL(cuDeviceGetLuid)
UNSUPPORTED_SYMBOL(cuDeviceGetNvSciSyncAttributes)
UNSUPPORTED_SYMBOL(cuDeviceGetP2PAtomicCapabilities)
UNSUPPORTED_SYMBOL(cuDeviceGetTexture1DLinearMaxWidth)
UNSUPPORTED_SYMBOL(cuDeviceRegisterAsyncNotification)
UNSUPPORTED_SYMBOL(cuDeviceUnregisterAsyncNotification)
UNSUPPORTED_SYMBOL(cuExternalMemoryGetMappedBuffer)
UNSUPPORTED_SYMBOL(cuExternalMemoryGetMappedMipmappedArray)
UNSUPPORTED_SYMBOL(cuGraphAddBatchMemOpNode)
UNSUPPORTED_SYMBOL(cuGraphAddExternalSemaphoresSignalNode)
UNSUPPORTED_SYMBOL(cuGraphAddExternalSemaphoresWaitNode)
UNSUPPORTED_SYMBOL(cuGraphBatchMemOpNodeGetParams)
UNSUPPORTED_SYMBOL(cuGraphBatchMemOpNodeSetParams)
UNSUPPORTED_SYMBOL(cuGraphExecBatchMemOpNodeSetParams)
UNSUPPORTED_SYMBOL(cuGraphExecExternalSemaphoresSignalNodeSetParams)
UNSUPPORTED_SYMBOL(cuGraphExecExternalSemaphoresWaitNodeSetParams)
UNSUPPORTED_SYMBOL(cuGraphExternalSemaphoresSignalNodeGetParams)
UNSUPPORTED_SYMBOL(cuGraphExternalSemaphoresSignalNodeSetParams)
UNSUPPORTED_SYMBOL(cuGraphExternalSemaphoresWaitNodeGetParams)
UNSUPPORTED_SYMBOL(cuGraphExternalSemaphoresWaitNodeSetParams)
UNSUPPORTED_SYMBOL(cuGraphicsMapResources)
UNSUPPORTED_SYMBOL(cuGraphicsResourceGetMappedMipmappedArray)
UNSUPPORTED_SYMBOL(cuGraphicsResourceGetMappedPointer_v2)
UNSUPPORTED_SYMBOL(cuGraphicsResourceSetMapFlags_v2)
UNSUPPORTED_SYMBOL(cuGraphicsSubResourceGetMappedArray)
UNSUPPORTED_SYMBOL(cuGraphicsUnmapResources)
UNSUPPORTED_SYMBOL(cuGraphicsUnregisterResource)
UNSUPPORTED_SYMBOL(cuImportExternalMemory)
UNSUPPORTED_SYMBOL(cuImportExternalSemaphore)
UNSUPPORTED_SYMBOL(cuLaunchCooperativeKernelMultiDevice)
UNSUPPORTED_SYMBOL(cuLogsCurrent)
UNSUPPORTED_SYMBOL(cuLogsDumpToFile)
UNSUPPORTED_SYMBOL(cuLogsDumpToMemory)
UNSUPPORTED_SYMBOL(cuLogsRegisterCallback)
UNSUPPORTED_SYMBOL(cuLogsUnregisterCallback)
UNSUPPORTED_SYMBOL(cuMemBatchDecompressAsync)
UNSUPPORTED_SYMBOL(cuMemMapArrayAsync)
UNSUPPORTED_SYMBOL(cuMipmappedArrayGetMemoryRequirements)
UNSUPPORTED_SYMBOL(cuMipmappedArrayGetSparseProperties)
UNSUPPORTED_SYMBOL(cuMulticastAddDevice)
UNSUPPORTED_SYMBOL(cuMulticastBindAddr)
UNSUPPORTED_SYMBOL(cuMulticastBindMem)
UNSUPPORTED_SYMBOL(cuMulticastCreate)
UNSUPPORTED_SYMBOL(cuMulticastGetGranularity)
UNSUPPORTED_SYMBOL(cuMulticastUnbind)
UNSUPPORTED_SYMBOL(cuSignalExternalSemaphoresAsync)
UNSUPPORTED_SYMBOL(cuTensorMapEncodeIm2col)
UNSUPPORTED_SYMBOL(cuTensorMapEncodeIm2colWide)
UNSUPPORTED_SYMBOL(cuTensorMapEncodeTiled)
UNSUPPORTED_SYMBOL(cuTensorMapReplaceAddress)
UNSUPPORTED_SYMBOL(cuWaitExternalSemaphoresAsync)
UNSUPPORTED_SYMBOL(cuDeviceGetProperties)
UNSUPPORTED_SYMBOL(cuGreenCtxGetId)
UNSUPPORTED_SYMBOL(cuStreamGetGreenCtx)
