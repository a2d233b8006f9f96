// What each function of the driver's does with the contents of device memory, by the name without
// version ("cuMemcpyDtoH", for cuMemcpyDtoH_v2 and cuMemcpyDtoH_v2_ptds). From cuda.h of CUDA 12.0
// to 13.5. A function that cuda.h has and this list does not fails a test
// (tests/shim/entry_points_test.cpp), so that no new one is overlooked.
//
// The contents of memory that the program has may be moved only while no call of a function in
// kUses or kNeedsMapped is under way (sleep/gates.h). Memory that was an argument of a function in
// kHandsOut may not be moved.
#pragma once

#include <array>
#include <string_view>

namespace cubfc::memory_contents {
// clang-format off

// Reads or writes device memory, or submits work that may, or lets the program's own code run in a
// stream's order. Also cuGetExportTable, which returns functions that no header declares. Functions
// that make a graph's nodes are not here: nodes use the memory that they name only when the graph
// is uploaded or launched.
inline constexpr auto kUses = std::to_array<std::string_view>({
    "cuCheckpointProcessCheckpoint", "cuCheckpointProcessLock", "cuCheckpointProcessRestore",
    "cuCheckpointProcessUnlock", "cuFabricCpyBatchAsync", "cuFlushGPUDirectRDMAWrites",
    "cuGetExportTable", "cuGraphInstantiate", "cuGraphInstantiateWithFlags",
    "cuGraphInstantiateWithParams", "cuGraphLaunch", "cuGraphUpload", "cuGraphicsMapResources",
    "cuGraphicsUnmapResources", "cuLaunch", "cuLaunchCooperativeKernel",
    "cuLaunchCooperativeKernelMultiDevice", "cuLaunchGrid", "cuLaunchGridAsync",
    "cuLaunchHostFunc", "cuLaunchKernel", "cuLaunchKernelEx", "cuMemAdvise",
    "cuMemBatchDecompressAsync", "cuMemDiscardAndPrefetchBatchAsync", "cuMemDiscardBatchAsync",
    "cuMemMapArrayAsync", "cuMemPrefetchAsync", "cuMemPrefetchBatchAsync", "cuMemcpy",
    "cuMemcpy2D", "cuMemcpy2DAsync", "cuMemcpy2DUnaligned", "cuMemcpy3D", "cuMemcpy3DAsync",
    "cuMemcpy3DBatchAsync", "cuMemcpy3DPeer", "cuMemcpy3DPeerAsync",
    "cuMemcpy3DWithAttributesAsync", "cuMemcpyAsync", "cuMemcpyAtoA", "cuMemcpyAtoD",
    "cuMemcpyAtoH", "cuMemcpyAtoHAsync", "cuMemcpyBatchAsync", "cuMemcpyDtoA", "cuMemcpyDtoD",
    "cuMemcpyDtoDAsync", "cuMemcpyDtoH", "cuMemcpyDtoHAsync", "cuMemcpyHtoA", "cuMemcpyHtoAAsync",
    "cuMemcpyHtoD", "cuMemcpyHtoDAsync", "cuMemcpyPeer", "cuMemcpyPeerAsync",
    "cuMemcpyWithAttributesAsync", "cuMemsetD16", "cuMemsetD16Async", "cuMemsetD2D16",
    "cuMemsetD2D16Async", "cuMemsetD2D32", "cuMemsetD2D32Async", "cuMemsetD2D8",
    "cuMemsetD2D8Async", "cuMemsetD32", "cuMemsetD32Async", "cuMemsetD8", "cuMemsetD8Async",
    "cuSignalExternalSemaphoresAsync", "cuStreamAddCallback", "cuStreamAttachMemAsync",
    "cuStreamBatchMemOp", "cuStreamWaitValue32", "cuStreamWaitValue64", "cuStreamWriteValue32",
    "cuStreamWriteValue64", "cuWaitExternalSemaphoresAsync",
});

// Of the functions that need a gate (sleep/gates.h), those that have more than six parameters in one
// of their versions. Of cuFabricCpyBatchAsync and cuLogicalEndpointBindMem,
// which are of CUDA 13.5, it is not known.
inline constexpr auto kMoreThanSixParameters = std::to_array<std::string_view>({
    "cuFabricCpyBatchAsync", "cuLaunchCooperativeKernel", "cuLaunchKernel", "cuLibraryLoadData",
    "cuLibraryLoadFromFile", "cuLogicalEndpointBindMem", "cuMemDiscardAndPrefetchBatchAsync", "cuMemPrefetchBatchAsync",
    "cuMemcpyBatchAsync", "cuMulticastBindMem",
});

// Lets others reach the memory: other processes, other devices, a NIC.
inline constexpr auto kHandsOut = std::to_array<std::string_view>({
    "cuCtxEnablePeerAccess", "cuEGLStreamProducerPresentFrame", "cuIpcGetMemHandle",
    "cuLogicalEndpointBindAddr", "cuLogicalEndpointBindMem", "cuLogicalEndpointExport",
    "cuMemExportToShareableHandle", "cuMemGetHandleForAddressRange", "cuMemPoolExportPointer",
    "cuMemPoolExportToShareableHandle", "cuMemPoolSetAccess", "cuMemRetainAllocationHandle",
    "cuMemSetAccess", "cuMulticastBindAddr", "cuMulticastBindMem", "cuPointerSetAttribute",
});

// Needs memory to be where the program has it: takes memory of the device, which would be lacking
// when the program's own is to come back; tells something of an address or checks it; or begins a
// capture, during which memory cannot be moved. cuda.h does not say which
// functions check addresses, so each that is given one is here. Two exceptions: cuTensorMapEncode*
// only writes the address into a descriptor, and has too many arguments for a gate; what a free is
// given is not used again.
inline constexpr auto kNeedsMapped = std::to_array<std::string_view>({
    "cuArray3DCreate", "cuArrayCreate", "cuGraphAddBatchMemOpNode", "cuGraphAddKernelNode",
    "cuGraphAddMemAllocNode", "cuGraphAddMemcpyNode", "cuGraphAddMemsetNode", "cuGraphAddNode",
    "cuGraphBatchMemOpNodeSetParams", "cuGraphExecBatchMemOpNodeSetParams",
    "cuGraphExecChildGraphNodeSetParams", "cuGraphExecKernelNodeSetParams",
    "cuGraphExecMemcpyNodeSetParams", "cuGraphExecMemsetNodeSetParams", "cuGraphExecNodeSetParams",
    "cuGraphExecUpdate", "cuGraphKernelNodeSetParams", "cuGraphMemcpyNodeSetParams",
    "cuGraphMemsetNodeSetParams", "cuGraphNodeSetParams", "cuLibraryLoadData",
    "cuLibraryLoadFromFile", "cuMemAlloc", "cuMemAllocAsync", "cuMemAllocFromPoolAsync",
    "cuMemAllocManaged", "cuMemAllocPitch", "cuMemCreate", "cuMemGetAccess", "cuMemGetAddressRange",
    "cuMemRangeGetAttribute", "cuMemRangeGetAttributes", "cuMipmappedArrayCreate", "cuModuleLoad",
    "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuPointerGetAttribute",
    "cuPointerGetAttributes", "cuStreamBeginCapture", "cuStreamBeginCaptureToCig",
    "cuStreamBeginCaptureToGraph", "cuStreamBeginRecaptureToGraph", "cuTensorMapReplaceAddress",
    "cuTexObjectCreate", "cuTexRefSetAddress", "cuTexRefSetAddress2D",
});

// None of these. Frees, maps, describes, waits; concerns contexts, modules, graphs as they are made,
// events, host memory, or nothing of a device. Also names that cuda.h does not declare but its
// companions do (cudaGL.h, cudaEGL.h, cudaVDPAU.h, cudaProfiler.h), for which CUDA's runtime asks.
inline constexpr auto kNone = std::to_array<std::string_view>({
    "cuArray3DGetDescriptor", "cuArrayDestroy", "cuArrayGetDescriptor",
    "cuArrayGetMemoryRequirements", "cuArrayGetPlane", "cuArrayGetSparseProperties",
    "cuCheckpointOperationComplete", "cuCheckpointProcessGetRestoreThreadId",
    "cuCheckpointProcessGetState", "cuCoredumpDeregisterCompleteCallback",
    "cuCoredumpDeregisterStartCallback", "cuCoredumpGetAttribute", "cuCoredumpGetAttributeGlobal",
    "cuCoredumpRegisterCompleteCallback", "cuCoredumpRegisterStartCallback",
    "cuCoredumpSetAttribute", "cuCoredumpSetAttributeGlobal", "cuCtxAttach", "cuCtxCreate",
    "cuCtxDestroy", "cuCtxDetach", "cuCtxDisablePeerAccess", "cuCtxFromGreenCtx",
    "cuCtxGetApiVersion", "cuCtxGetCacheConfig", "cuCtxGetCurrent", "cuCtxGetDevResource",
    "cuCtxGetDevice", "cuCtxGetExecAffinity", "cuCtxGetFlags", "cuCtxGetId", "cuCtxGetLimit",
    "cuCtxGetSharedMemConfig", "cuCtxGetStreamPriorityRange", "cuCtxPopCurrent", "cuCtxPushCurrent",
    "cuCtxRecordEvent", "cuCtxResetPersistingL2Cache", "cuCtxSetCacheConfig", "cuCtxSetCurrent",
    "cuCtxSetFlags", "cuCtxSetLimit", "cuCtxSetSharedMemConfig", "cuCtxSynchronize",
    "cuCtxWaitEvent", "cuDestroyExternalMemory", "cuDestroyExternalSemaphore",
    "cuDevResourceGenerateDesc", "cuDevSmResourceSplit", "cuDevSmResourceSplitByCount",
    "cuDeviceCanAccessPeer", "cuDeviceComputeCapability", "cuDeviceGet", "cuDeviceGetAttribute",
    "cuDeviceGetByPCIBusId", "cuDeviceGetCliqueCount", "cuDeviceGetCliqueInfo", "cuDeviceGetCount",
    "cuDeviceGetDefaultMemPool", "cuDeviceGetDevResource", "cuDeviceGetExecAffinitySupport",
    "cuDeviceGetFabricClusterUuid", "cuDeviceGetGraphMemAttribute",
    "cuDeviceGetHostAtomicCapabilities", "cuDeviceGetLuid", "cuDeviceGetMemPool", "cuDeviceGetName",
    "cuDeviceGetNvSciSyncAttributes", "cuDeviceGetP2PAtomicCapabilities", "cuDeviceGetP2PAttribute",
    "cuDeviceGetPCIBusId", "cuDeviceGetProperties", "cuDeviceGetTexture1DLinearMaxWidth",
    "cuDeviceGetUuid", "cuDeviceGraphMemTrim", "cuDevicePrimaryCtxGetState",
    "cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxSetFlags", "cuDeviceRegisterAsyncNotification",
    "cuDeviceSetGraphMemAttribute", "cuDeviceSetMemPool", "cuDeviceTotalMem",
    "cuDeviceUnregisterAsyncNotification", "cuDriverGetVersion", "cuEGLStreamConsumerAcquireFrame",
    "cuEGLStreamConsumerConnect", "cuEGLStreamConsumerConnectWithFlags",
    "cuEGLStreamConsumerDisconnect", "cuEGLStreamConsumerReleaseFrame",
    "cuEGLStreamProducerConnect", "cuEGLStreamProducerDisconnect", "cuEGLStreamProducerReturnFrame",
    "cuEventCreate", "cuEventDestroy", "cuEventElapsedTime", "cuEventQuery", "cuEventRecord",
    "cuEventRecordWithFlags", "cuEventSynchronize", "cuExternalMemoryGetMappedBuffer",
    "cuExternalMemoryGetMappedMipmappedArray", "cuFuncGetAttribute", "cuFuncGetModule",
    "cuFuncGetName", "cuFuncGetParamCount", "cuFuncGetParamInfo", "cuFuncIsLoaded", "cuFuncLoad",
    "cuFuncSetAttribute", "cuFuncSetBlockShape", "cuFuncSetCacheConfig", "cuFuncSetSharedMemConfig",
    "cuFuncSetSharedSize", "cuGLCtxCreate", "cuGLGetDevices", "cuGLInit", "cuGLMapBufferObject",
    "cuGLMapBufferObjectAsync", "cuGLRegisterBufferObject", "cuGLSetBufferObjectMapFlags",
    "cuGLUnmapBufferObject", "cuGLUnmapBufferObjectAsync", "cuGLUnregisterBufferObject",
    "cuGetErrorName", "cuGetErrorString", "cuGetProcAddress", "cuGraphAddChildGraphNode",
    "cuGraphAddDependencies", "cuGraphAddEmptyNode", "cuGraphAddEventRecordNode",
    "cuGraphAddEventWaitNode", "cuGraphAddExternalSemaphoresSignalNode",
    "cuGraphAddExternalSemaphoresWaitNode", "cuGraphAddHostNode", "cuGraphAddMemFreeNode",
    "cuGraphBatchMemOpNodeGetParams", "cuGraphChildGraphNodeGetGraph", "cuGraphClone",
    "cuGraphConditionalHandleCreate", "cuGraphCreate", "cuGraphDebugDotPrint", "cuGraphDestroy",
    "cuGraphDestroyNode", "cuGraphEventRecordNodeGetEvent", "cuGraphEventRecordNodeSetEvent",
    "cuGraphEventWaitNodeGetEvent", "cuGraphEventWaitNodeSetEvent", "cuGraphExecDestroy",
    "cuGraphExecEventRecordNodeSetEvent", "cuGraphExecEventWaitNodeSetEvent",
    "cuGraphExecExternalSemaphoresSignalNodeSetParams",
    "cuGraphExecExternalSemaphoresWaitNodeSetParams", "cuGraphExecGetFlags", "cuGraphExecGetId",
    "cuGraphExecHostNodeSetParams", "cuGraphExternalSemaphoresSignalNodeGetParams",
    "cuGraphExternalSemaphoresSignalNodeSetParams", "cuGraphExternalSemaphoresWaitNodeGetParams",
    "cuGraphExternalSemaphoresWaitNodeSetParams", "cuGraphGetEdges", "cuGraphGetId",
    "cuGraphGetNodes", "cuGraphGetRootNodes", "cuGraphHostNodeGetParams",
    "cuGraphHostNodeSetParams", "cuGraphKernelNodeCopyAttributes", "cuGraphKernelNodeGetAttribute",
    "cuGraphKernelNodeGetParams", "cuGraphKernelNodeSetAttribute", "cuGraphMemAllocNodeGetParams",
    "cuGraphMemFreeNodeGetParams", "cuGraphMemcpyNodeGetParams", "cuGraphMemsetNodeGetParams",
    "cuGraphNodeFindInClone", "cuGraphNodeGetContainingGraph", "cuGraphNodeGetDependencies",
    "cuGraphNodeGetDependentNodes", "cuGraphNodeGetEnabled", "cuGraphNodeGetLocalId",
    "cuGraphNodeGetParams", "cuGraphNodeGetToolsId", "cuGraphNodeGetType", "cuGraphNodeSetEnabled",
    "cuGraphReleaseUserObject", "cuGraphRemoveDependencies", "cuGraphRetainUserObject",
    "cuGraphicsEGLRegisterImage", "cuGraphicsGLRegisterBuffer", "cuGraphicsGLRegisterImage",
    "cuGraphicsResourceGetMappedEglFrame", "cuGraphicsResourceGetMappedMipmappedArray",
    "cuGraphicsResourceGetMappedPointer", "cuGraphicsResourceSetMapFlags",
    "cuGraphicsSubResourceGetMappedArray", "cuGraphicsUnregisterResource",
    "cuGraphicsVDPAURegisterOutputSurface", "cuGraphicsVDPAURegisterVideoSurface",
    "cuGreenCtxCreate", "cuGreenCtxDestroy", "cuGreenCtxGetDevResource", "cuGreenCtxGetId",
    "cuGreenCtxRecordEvent", "cuGreenCtxStreamCreate", "cuGreenCtxWaitEvent",
    "cuImportExternalMemory", "cuImportExternalSemaphore", "cuInit", "cuIpcCloseMemHandle",
    "cuIpcGetEventHandle", "cuIpcOpenEventHandle", "cuIpcOpenMemHandle", "cuKernelGetAttribute",
    "cuKernelGetFunction", "cuKernelGetLibrary", "cuKernelGetName", "cuKernelGetParamCount",
    "cuKernelGetParamInfo", "cuKernelSetAttribute", "cuKernelSetCacheConfig",
    "cuLibraryEnumerateKernels", "cuLibraryGetGlobal", "cuLibraryGetKernel",
    "cuLibraryGetKernelCount", "cuLibraryGetManaged", "cuLibraryGetModule",
    "cuLibraryGetUnifiedFunction", "cuLibraryUnload", "cuLinkAddData", "cuLinkAddFile",
    "cuLinkComplete", "cuLinkCreate", "cuLinkDestroy", "cuLogicalEndpointAddDevice",
    "cuLogicalEndpointCreate", "cuLogicalEndpointDestroy", "cuLogicalEndpointGetLimits",
    "cuLogicalEndpointIdRelease", "cuLogicalEndpointIdReserve", "cuLogicalEndpointImport",
    "cuLogicalEndpointQuery", "cuLogicalEndpointUnbind", "cuLogsCurrent", "cuLogsDumpToFile",
    "cuLogsDumpToMemory", "cuLogsRegisterCallback", "cuLogsUnregisterCallback", "cuMemAddressFree",
    "cuMemAddressReserve", "cuMemAllocHost", "cuMemFree", "cuMemFreeAsync", "cuMemFreeHost",
    "cuMemGetAllocationGranularity", "cuMemGetAllocationPropertiesFromHandle",
    "cuMemGetDefaultMemPool", "cuMemGetInfo", "cuMemGetLocationInfo", "cuMemGetMemPool",
    "cuMemHostAlloc", "cuMemHostGetDevicePointer", "cuMemHostGetFlags", "cuMemHostRegister",
    "cuMemHostUnregister", "cuMemImportFromShareableHandle", "cuMemMap", "cuMemPoolCreate",
    "cuMemPoolDestroy", "cuMemPoolGetAccess", "cuMemPoolGetAttribute",
    "cuMemPoolImportFromShareableHandle", "cuMemPoolImportPointer", "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo", "cuMemRelease", "cuMemSetMemPool", "cuMemUnmap", "cuMipmappedArrayDestroy",
    "cuMipmappedArrayGetLevel", "cuMipmappedArrayGetMemoryRequirements",
    "cuMipmappedArrayGetSparseProperties", "cuModuleEnumerateFunctions", "cuModuleGetFunction",
    "cuModuleGetFunctionCount", "cuModuleGetGlobal", "cuModuleGetLoadingMode", "cuModuleGetSurfRef",
    "cuModuleGetTexRef", "cuModuleUnload", "cuMulticastAddDevice", "cuMulticastCreate",
    "cuMulticastGetGranularity", "cuMulticastUnbind", "cuOccupancyAvailableDynamicSMemPerBlock",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "cuOccupancyMaxActiveClusters",
    "cuOccupancyMaxPotentialBlockSize", "cuOccupancyMaxPotentialBlockSizeWithFlags",
    "cuOccupancyMaxPotentialClusterSize", "cuParamSetSize", "cuParamSetTexRef", "cuParamSetf",
    "cuParamSeti", "cuParamSetv", "cuProfilerInitialize", "cuProfilerStart", "cuProfilerStop",
    "cuStreamCopyAttributes", "cuStreamCreate", "cuStreamCreateWithPriority", "cuStreamDestroy",
    "cuStreamEndCapture", "cuStreamEndCaptureToCig", "cuStreamGetAttribute",
    "cuStreamGetCaptureInfo", "cuStreamGetCtx", "cuStreamGetDevResource", "cuStreamGetDevice",
    "cuStreamGetFlags", "cuStreamGetGreenCtx", "cuStreamGetId", "cuStreamGetPriority",
    "cuStreamIsCapturing", "cuStreamQuery", "cuStreamSetAttribute", "cuStreamSynchronize",
    "cuStreamUpdateCaptureDependencies", "cuStreamWaitEvent", "cuSurfObjectCreate",
    "cuSurfObjectDestroy", "cuSurfObjectGetResourceDesc", "cuSurfRefGetArray", "cuSurfRefSetArray",
    "cuTensorMapEncodeIm2col", "cuTensorMapEncodeIm2colWide", "cuTensorMapEncodeTiled",
    "cuTensorMapSetAllocationClass", "cuTexObjectDestroy", "cuTexObjectGetResourceDesc",
    "cuTexObjectGetResourceViewDesc", "cuTexObjectGetTextureDesc", "cuTexRefCreate",
    "cuTexRefDestroy", "cuTexRefGetAddress", "cuTexRefGetAddressMode", "cuTexRefGetArray",
    "cuTexRefGetBorderColor", "cuTexRefGetFilterMode", "cuTexRefGetFlags", "cuTexRefGetFormat",
    "cuTexRefGetMaxAnisotropy", "cuTexRefGetMipmapFilterMode", "cuTexRefGetMipmapLevelBias",
    "cuTexRefGetMipmapLevelClamp", "cuTexRefGetMipmappedArray", "cuTexRefSetAddressMode",
    "cuTexRefSetArray", "cuTexRefSetBorderColor", "cuTexRefSetFilterMode", "cuTexRefSetFlags",
    "cuTexRefSetFormat", "cuTexRefSetMaxAnisotropy", "cuTexRefSetMipmapFilterMode",
    "cuTexRefSetMipmapLevelBias", "cuTexRefSetMipmapLevelClamp", "cuTexRefSetMipmappedArray",
    "cuThreadExchangeStreamCaptureMode", "cuUserObjectCreate", "cuUserObjectRelease",
    "cuUserObjectRetain", "cuVDPAUCtxCreate", "cuVDPAUGetDevice",
});

// clang-format on
}  // namespace cubfc::memory_contents
