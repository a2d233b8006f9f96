// What other APIs share with CUDA: memory, semaphores, graphics' resources. A driver that serves
// none of it says so.
#include "forward.h"

using namespace cudart;

// Before CUDA 13 the runtime's descriptions are shorter than the driver's.
#if CUDART_VERSION >= 13000
CUDART_FORWARD(2, cudaImportExternalMemory, cuImportExternalMemory)
CUDART_FORWARD(3, cudaExternalMemoryGetMappedBuffer, cuExternalMemoryGetMappedBuffer)
CUDART_FORWARD(2, cudaImportExternalSemaphore, cuImportExternalSemaphore)
CUDART_FORWARD(4, cudaSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync)
CUDART_FORWARD(4, cudaWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync)
CUDART_FORWARD(1, cudaDestroyExternalMemory, cuDestroyExternalMemory)
CUDART_FORWARD(1, cudaDestroyExternalSemaphore, cuDestroyExternalSemaphore)
CUDART_FORWARD(5, cudaGraphAddExternalSemaphoresSignalNode, cuGraphAddExternalSemaphoresSignalNode)
CUDART_FORWARD(5, cudaGraphAddExternalSemaphoresWaitNode, cuGraphAddExternalSemaphoresWaitNode)
CUDART_FORWARD(2, cudaGraphExternalSemaphoresSignalNodeGetParams,
               cuGraphExternalSemaphoresSignalNodeGetParams)
CUDART_FORWARD(2, cudaGraphExternalSemaphoresSignalNodeSetParams,
               cuGraphExternalSemaphoresSignalNodeSetParams)
CUDART_FORWARD(2, cudaGraphExternalSemaphoresWaitNodeGetParams,
               cuGraphExternalSemaphoresWaitNodeGetParams)
CUDART_FORWARD(2, cudaGraphExternalSemaphoresWaitNodeSetParams,
               cuGraphExternalSemaphoresWaitNodeSetParams)
CUDART_FORWARD(3, cudaGraphExecExternalSemaphoresSignalNodeSetParams,
               cuGraphExecExternalSemaphoresSignalNodeSetParams)
CUDART_FORWARD(3, cudaGraphExecExternalSemaphoresWaitNodeSetParams,
               cuGraphExecExternalSemaphoresWaitNodeSetParams)

CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaDeviceGetNvSciSyncAttributes, cuDeviceGetNvSciSyncAttributes)

CUDART_FORWARD(3, cudaGraphicsMapResources, cuGraphicsMapResources)
CUDART_FORWARD(3, cudaGraphicsUnmapResources, cuGraphicsUnmapResources)
CUDART_FORWARD(1, cudaGraphicsUnregisterResource, cuGraphicsUnregisterResource)
CUDART_FORWARD(2, cudaGraphicsResourceSetMapFlags, cuGraphicsResourceSetMapFlags_v2)
CUDART_FORWARD(3, cudaGraphicsResourceGetMappedPointer, cuGraphicsResourceGetMappedPointer_v2)
CUDART_FORWARD(4, cudaGraphicsSubResourceGetMappedArray, cuGraphicsSubResourceGetMappedArray)
CUDART_FORWARD(2, cudaGraphicsResourceGetMappedMipmappedArray,
               cuGraphicsResourceGetMappedMipmappedArray)
#endif
