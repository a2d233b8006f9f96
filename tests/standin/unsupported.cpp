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
#define ANSWERING_SYMBOL(symbol, answer)                                                     \
  extern "C" CUresult standin_unsupported_##symbol() __asm__(#symbol);                       \
  namespace {                                                                                \
  EntryPoint entry_##symbol(#symbol, reinterpret_cast<void*>(&standin_unsupported_##symbol), \
                            Needs::kInit, DefaultStream::kLegacy);                           \
  }                                                                                          \
  extern "C" CUresult standin_unsupported_##symbol() {                                       \
    return entry_##symbol.Call([] { return answer; });                                       \
  }

#define UNSUPPORTED_SYMBOL(symbol) ANSWERING_SYMBOL(symbol, CUDA_ERROR_NOT_SUPPORTED)
// Of what nothing here makes, so that each handle of one is wrong.
#define NO_SUCH_OBJECT(symbol) ANSWERING_SYMBOL(symbol, CUDA_ERROR_INVALID_VALUE)
#define NO_SUCH_RESOURCE(symbol) ANSWERING_SYMBOL(symbol, CUDA_ERROR_INVALID_HANDLE)

#define UNSUPPORTED(symbol, parameters, arguments) \
  STANDIN_EXPORT(symbol, Unsupported, parameters, arguments, kInit, kLegacy)

// Textures of launches before CUDA 4.
UNSUPPORTED(cuParamSetTexRef, (CUfunction f, int unit, CUtexref texture), (f, unit, texture))

// Profiles in files, deprecated since CUDA 11.
UNSUPPORTED(cuProfilerInitialize, (const char* from, const char* to, int mode), (from, to, mode))

// Multicast, tensor maps, semaphores and batches in graphs, and what other systems have.
UNSUPPORTED_SYMBOL(cuCheckpointProcessLock)
UNSUPPORTED_SYMBOL(cuGraphAddBatchMemOpNode)
UNSUPPORTED_SYMBOL(cuGraphAddExternalSemaphoresSignalNode)
UNSUPPORTED_SYMBOL(cuGraphAddExternalSemaphoresWaitNode)
UNSUPPORTED_SYMBOL(cuGraphBatchMemOpNodeGetParams)
UNSUPPORTED_SYMBOL(cuGraphBatchMemOpNodeSetParams)
UNSUPPORTED_SYMBOL(cuGraphExecBatchMemOpNodeSetParams)
UNSUPPORTED_SYMBOL(cuMemBatchDecompressAsync)
UNSUPPORTED_SYMBOL(cuMulticastAddDevice)
UNSUPPORTED_SYMBOL(cuMulticastBindAddr)
UNSUPPORTED_SYMBOL(cuMulticastBindMem)
UNSUPPORTED_SYMBOL(cuMulticastCreate)
UNSUPPORTED_SYMBOL(cuMulticastGetGranularity)
UNSUPPORTED_SYMBOL(cuMulticastUnbind)
UNSUPPORTED_SYMBOL(cuTensorMapEncodeIm2col)
UNSUPPORTED_SYMBOL(cuTensorMapEncodeTiled)
UNSUPPORTED_SYMBOL(cuTensorMapReplaceAddress)
UNSUPPORTED_SYMBOL(cuStreamGetGreenCtx)

// External memory and semaphores.
NO_SUCH_OBJECT(cuDestroyExternalMemory)
NO_SUCH_OBJECT(cuDestroyExternalSemaphore)
NO_SUCH_OBJECT(cuExternalMemoryGetMappedBuffer)
NO_SUCH_OBJECT(cuExternalMemoryGetMappedMipmappedArray)
NO_SUCH_OBJECT(cuSignalExternalSemaphoresAsync)
NO_SUCH_OBJECT(cuWaitExternalSemaphoresAsync)
NO_SUCH_OBJECT(cuGraphExecExternalSemaphoresSignalNodeSetParams)
NO_SUCH_OBJECT(cuGraphExecExternalSemaphoresWaitNodeSetParams)
NO_SUCH_OBJECT(cuGraphExternalSemaphoresSignalNodeGetParams)
NO_SUCH_OBJECT(cuGraphExternalSemaphoresSignalNodeSetParams)
NO_SUCH_OBJECT(cuGraphExternalSemaphoresWaitNodeGetParams)
NO_SUCH_OBJECT(cuGraphExternalSemaphoresWaitNodeSetParams)

// Graphics.
NO_SUCH_RESOURCE(cuGraphicsResourceGetMappedMipmappedArray)
NO_SUCH_RESOURCE(cuGraphicsResourceGetMappedPointer_v2)
NO_SUCH_RESOURCE(cuGraphicsResourceSetMapFlags_v2)
NO_SUCH_RESOURCE(cuGraphicsSubResourceGetMappedArray)
NO_SUCH_RESOURCE(cuGraphicsUnregisterResource)

// What is served where the headers have what it takes.
#if CUDA_VERSION < 12040
UNSUPPORTED_SYMBOL(cuDeviceRegisterAsyncNotification)
UNSUPPORTED_SYMBOL(cuDeviceUnregisterAsyncNotification)
#endif
#if CUDA_VERSION < 12080
UNSUPPORTED_SYMBOL(cuCheckpointProcessCheckpoint)
UNSUPPORTED_SYMBOL(cuCheckpointProcessGetRestoreThreadId)
UNSUPPORTED_SYMBOL(cuCheckpointProcessGetState)
UNSUPPORTED_SYMBOL(cuCheckpointProcessRestore)
UNSUPPORTED_SYMBOL(cuCheckpointProcessUnlock)
UNSUPPORTED_SYMBOL(cuTensorMapEncodeIm2colWide)
#endif
#if CUDA_VERSION < 12040
UNSUPPORTED_SYMBOL(cuGreenCtxGetId)
#endif
#if CUDA_VERSION < 12090
UNSUPPORTED_SYMBOL(cuLogsCurrent)
UNSUPPORTED_SYMBOL(cuLogsDumpToFile)
UNSUPPORTED_SYMBOL(cuLogsDumpToMemory)
UNSUPPORTED_SYMBOL(cuLogsRegisterCallback)
UNSUPPORTED_SYMBOL(cuLogsUnregisterCallback)
#endif
#if CUDA_VERSION < 13000
UNSUPPORTED_SYMBOL(cuDeviceGetHostAtomicCapabilities)
UNSUPPORTED_SYMBOL(cuDeviceGetP2PAtomicCapabilities)
#endif
#if CUDA_VERSION < 12080
UNSUPPORTED_SYMBOL(cuMemcpy3DBatchAsync)
#endif
#if CUDA_VERSION < 13000
UNSUPPORTED_SYMBOL(cuMemcpy3DBatchAsync_v2)
#endif
#if CUDA_VERSION < 11060
UNSUPPORTED_SYMBOL(cuArrayGetMemoryRequirements)
UNSUPPORTED_SYMBOL(cuMipmappedArrayGetMemoryRequirements)
#endif
