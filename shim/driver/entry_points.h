// The driver entry points that cubfc intercepts: the one list that makes the wrappers'
// declarations, the table of real functions, the resolver's routes, exports.map and the coverage
// test. Knows names and signatures; nothing of what the wrappers do.
//
// CUBFC_ENTRY_POINTS(X) calls X(name, base, version, per_thread, parameters) for each:
//   name        the symbol that libcuda exports
//   base        the name that cuGetProcAddress knows it by
//   version     the CUDA version in which this ABI of the base name appeared (cudaTypedefs.h)
//   per_thread  1 for the variant whose stream 0 is the per-thread default stream
// One line each: shim/CMakeLists.txt reads the names from here.
#pragma once

#include <cuda.h>

// cuda.h makes macros of the names whose ABI has changed. Here each name means the symbol it
// spells.
#undef cuCtxCreate
#undef cuCtxDestroy
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
#undef cuGetProcAddress
#undef cuGraphInstantiate
#undef cuIpcOpenMemHandle
#undef cuStreamBeginCapture
#undef cuStreamDestroy

namespace cubfc {

// Types that the oldest supported headers (12.1) do not declare; only pointers to them are passed
// on.
using GreenContext = struct CUgreenCtx_st*;
using GraphEdges = const struct CUgraphEdgeData_st*;
using CreateParameters = struct CUctxCreateParams_st*;
using ResourceDescription = struct CUdevResourceDesc_st*;

}  // namespace cubfc

// clang-format off
#define CUBFC_ENTRY_POINTS(X) \
  X(cuMemAlloc_v2, "cuMemAlloc", 3020, 0, (CUdeviceptr* address, size_t bytes)) \
  X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0, (CUdeviceptr* address, size_t* pitch, size_t width, size_t height, unsigned element_bytes)) \
  X(cuMemFree_v2, "cuMemFree", 3020, 0, (CUdeviceptr address)) \
  X(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0, (CUdeviceptr* address, size_t bytes, CUstream stream)) \
  X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 1, (CUdeviceptr* address, size_t bytes, CUstream stream)) \
  X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0, (CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream stream)) \
  X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, 1, (CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream stream)) \
  X(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0, (CUdeviceptr address, CUstream stream)) \
  X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 1, (CUdeviceptr address, CUstream stream)) \
  X(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0, (CUdeviceptr* address, size_t bytes, unsigned flags)) \
  X(cuMemCreate, "cuMemCreate", 10020, 0, (CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties, unsigned long long flags)) \
  X(cuMemRelease, "cuMemRelease", 10020, 0, (CUmemGenericAllocationHandle handle)) \
  X(cuMemMap, "cuMemMap", 10020, 0, (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)) \
  X(cuMemUnmap, "cuMemUnmap", 10020, 0, (CUdeviceptr address, size_t bytes)) \
  X(cuArrayCreate_v2, "cuArrayCreate", 3020, 0, (CUarray* array, const CUDA_ARRAY_DESCRIPTOR* shape)) \
  X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, 0, (CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape)) \
  X(cuArrayDestroy, "cuArrayDestroy", 2000, 0, (CUarray array)) \
  X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, 0, (CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned levels)) \
  X(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, 0, (CUmipmappedArray array)) \
  X(cuMemGetInfo_v2, "cuMemGetInfo", 3020, 0, (size_t* free_bytes, size_t* total_bytes)) \
  X(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, 0, (size_t* bytes, CUdevice device)) \
  X(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, 0, (CUdeviceptr* base, size_t* bytes, CUdeviceptr address)) \
  X(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, 0, (void* value, CUpointer_attribute attribute, CUdeviceptr address)) \
  X(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, 0, (unsigned count, CUpointer_attribute* attributes, void** values, CUdeviceptr address)) \
  X(cuPointerSetAttribute, "cuPointerSetAttribute", 6000, 0, (const void* value, CUpointer_attribute attribute, CUdeviceptr address)) \
  X(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange", 11070, 0, (void* handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type, unsigned long long flags)) \
  X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, 0, (CUmemGenericAllocationHandle* handle, void* address)) \
  X(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010, 0, (CUipcMemHandle* handle, CUdeviceptr address)) \
  X(cuIpcOpenMemHandle, "cuIpcOpenMemHandle", 4010, 0, (CUdeviceptr* address, CUipcMemHandle handle, unsigned flags)) \
  X(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle", 11000, 0, (CUdeviceptr* address, CUipcMemHandle handle, unsigned flags)) \
  X(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010, 0, (CUdeviceptr address)) \
  X(cuGetProcAddress, "cuGetProcAddress", 11030, 0, (const char* symbol, void** function, int version, cuuint64_t flags)) \
  X(cuGetProcAddress_v2, "cuGetProcAddress", 12000, 0, (const char* symbol, void** function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* status)) \
  X(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, 0, (CUdevice device, CUmemoryPool pool)) \
  X(cuMemSetMemPool, "cuMemSetMemPool", 13000, 0, (CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool)) \
  X(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0, (CUmemoryPool* pool, const CUmemPoolProps* properties)) \
  X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0, (CUmemoryPool pool)) \
  X(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, 0, (CUmemoryPool pool, CUmemPool_attribute attribute, void* value)) \
  X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, 0, (CUmemoryPool pool, CUmemPool_attribute attribute, void* value)) \
  X(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, 0, (CUmemoryPool pool, const CUmemAccessDesc* access, size_t count)) \
  X(cuStreamBeginCapture, "cuStreamBeginCapture", 10000, 0, (CUstream stream)) \
  X(cuStreamBeginCapture_ptsz, "cuStreamBeginCapture", 10000, 1, (CUstream stream)) \
  X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, 0, (CUstream stream, CUstreamCaptureMode mode)) \
  X(cuStreamBeginCapture_v2_ptsz, "cuStreamBeginCapture", 10010, 1, (CUstream stream, CUstreamCaptureMode mode)) \
  X(cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030, 0, (CUstream stream, CUgraph graph, const CUgraphNode* nodes, ::cubfc::GraphEdges edges, size_t count, CUstreamCaptureMode mode)) \
  X(cuStreamBeginCaptureToGraph_ptsz, "cuStreamBeginCaptureToGraph", 12030, 1, (CUstream stream, CUgraph graph, const CUgraphNode* nodes, ::cubfc::GraphEdges edges, size_t count, CUstreamCaptureMode mode)) \
  X(cuStreamEndCapture, "cuStreamEndCapture", 10000, 0, (CUstream stream, CUgraph* graph)) \
  X(cuStreamEndCapture_ptsz, "cuStreamEndCapture", 10000, 1, (CUstream stream, CUgraph* graph)) \
  X(cuStreamDestroy, "cuStreamDestroy", 2000, 0, (CUstream stream)) \
  X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0, (CUstream stream)) \
  X(cuMemcpy, "cuMemcpy", 4000, 0, (CUdeviceptr to, CUdeviceptr from, size_t bytes)) \
  X(cuMemcpy_ptds, "cuMemcpy", 7000, 1, (CUdeviceptr to, CUdeviceptr from, size_t bytes)) \
  X(cuMemcpyAsync, "cuMemcpyAsync", 4000, 0, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
  X(cuMemcpyAsync_ptsz, "cuMemcpyAsync", 7000, 1, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
  X(cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020, 0, (CUdeviceptr to, CUdeviceptr from, size_t bytes)) \
  X(cuMemcpyDtoD_v2_ptds, "cuMemcpyDtoD", 7000, 1, (CUdeviceptr to, CUdeviceptr from, size_t bytes)) \
  X(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020, 0, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
  X(cuMemcpyDtoDAsync_v2_ptsz, "cuMemcpyDtoDAsync", 7000, 1, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)) \
  X(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, 0, (CUdeviceptr to, const void* from, size_t bytes)) \
  X(cuMemcpyHtoD_v2_ptds, "cuMemcpyHtoD", 7000, 1, (CUdeviceptr to, const void* from, size_t bytes)) \
  X(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 3020, 0, (CUdeviceptr to, const void* from, size_t bytes, CUstream stream)) \
  X(cuMemcpyHtoDAsync_v2_ptsz, "cuMemcpyHtoDAsync", 7000, 1, (CUdeviceptr to, const void* from, size_t bytes, CUstream stream)) \
  X(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, 0, (void* to, CUdeviceptr from, size_t bytes)) \
  X(cuMemcpyDtoH_v2_ptds, "cuMemcpyDtoH", 7000, 1, (void* to, CUdeviceptr from, size_t bytes)) \
  X(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020, 0, (void* to, CUdeviceptr from, size_t bytes, CUstream stream)) \
  X(cuMemcpyDtoHAsync_v2_ptsz, "cuMemcpyDtoHAsync", 7000, 1, (void* to, CUdeviceptr from, size_t bytes, CUstream stream)) \
  X(cuMemcpy2D_v2, "cuMemcpy2D", 3020, 0, (const CUDA_MEMCPY2D* copy)) \
  X(cuMemcpy2D_v2_ptds, "cuMemcpy2D", 7000, 1, (const CUDA_MEMCPY2D* copy)) \
  X(cuMemcpy2DUnaligned_v2, "cuMemcpy2DUnaligned", 3020, 0, (const CUDA_MEMCPY2D* copy)) \
  X(cuMemcpy2DUnaligned_v2_ptds, "cuMemcpy2DUnaligned", 7000, 1, (const CUDA_MEMCPY2D* copy)) \
  X(cuMemcpy2DAsync_v2, "cuMemcpy2DAsync", 3020, 0, (const CUDA_MEMCPY2D* copy, CUstream stream)) \
  X(cuMemcpy2DAsync_v2_ptsz, "cuMemcpy2DAsync", 7000, 1, (const CUDA_MEMCPY2D* copy, CUstream stream)) \
  X(cuMemcpy3D_v2, "cuMemcpy3D", 3020, 0, (const CUDA_MEMCPY3D* copy)) \
  X(cuMemcpy3D_v2_ptds, "cuMemcpy3D", 7000, 1, (const CUDA_MEMCPY3D* copy)) \
  X(cuMemcpy3DAsync_v2, "cuMemcpy3DAsync", 3020, 0, (const CUDA_MEMCPY3D* copy, CUstream stream)) \
  X(cuMemcpy3DAsync_v2_ptsz, "cuMemcpy3DAsync", 7000, 1, (const CUDA_MEMCPY3D* copy, CUstream stream)) \
  X(cuMemcpyDtoA_v2, "cuMemcpyDtoA", 3020, 0, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes)) \
  X(cuMemcpyDtoA_v2_ptds, "cuMemcpyDtoA", 7000, 1, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes)) \
  X(cuMemcpyAtoD_v2, "cuMemcpyAtoD", 3020, 0, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes)) \
  X(cuMemcpyAtoD_v2_ptds, "cuMemcpyAtoD", 7000, 1, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes)) \
  X(cuMemcpyPeer, "cuMemcpyPeer", 4000, 0, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)) \
  X(cuMemcpyPeer_ptds, "cuMemcpyPeer", 7000, 1, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)) \
  X(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 4000, 0, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream)) \
  X(cuMemcpyPeerAsync_ptsz, "cuMemcpyPeerAsync", 7000, 1, (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, CUstream stream)) \
  X(cuModuleLoad, "cuModuleLoad", 2000, 0, (CUmodule* module, const char* path)) \
  X(cuModuleLoadData, "cuModuleLoadData", 2000, 0, (CUmodule* module, const void* image)) \
  X(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, 0, (CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values)) \
  X(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000, 0, (CUmodule* module, const void* image)) \
  X(cuLibraryLoadData, "cuLibraryLoadData", 12000, 0, (CUlibrary* library, const void* code, CUjit_option* options, void** values, unsigned count, CUlibraryOption* library_options, void** library_values, unsigned library_count)) \
  X(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 12000, 0, (CUlibrary* library, const char* path, CUjit_option* options, void** values, unsigned count, CUlibraryOption* library_options, void** library_values, unsigned library_count)) \
  X(cuModuleGetFunction, "cuModuleGetFunction", 2000, 0, (CUfunction* function, CUmodule module, const char* symbol)) \
  X(cuLibraryGetKernel, "cuLibraryGetKernel", 12000, 0, (CUkernel* kernel, CUlibrary library, const char* symbol)) \
  X(cuLibraryGetModule, "cuLibraryGetModule", 12000, 0, (CUmodule* module, CUlibrary library)) \
  X(cuKernelGetFunction, "cuKernelGetFunction", 12000, 0, (CUfunction* function, CUkernel kernel)) \
  X(cuCtxSetLimit, "cuCtxSetLimit", 3010, 0, (CUlimit limit, size_t value)) \
  X(cuStreamCreate, "cuStreamCreate", 2000, 0, (CUstream* stream, unsigned flags)) \
  X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", 5050, 0, (CUstream* stream, unsigned flags, int priority)) \
  X(cuEventCreate, "cuEventCreate", 2000, 0, (CUevent* event, unsigned flags)) \
  X(cuLaunchKernel, "cuLaunchKernel", 4000, 0, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters, void** extra)) \
  X(cuLaunchKernel_ptsz, "cuLaunchKernel", 7000, 1, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters, void** extra)) \
  X(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, 0, (const CUlaunchConfig* configuration, CUfunction function, void** parameters, void** extra)) \
  X(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 11060, 1, (const CUlaunchConfig* configuration, CUfunction function, void** parameters, void** extra)) \
  X(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, 0, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters)) \
  X(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 9000, 1, (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters)) \
  X(cuGraphInstantiate, "cuGraphInstantiate", 10000, 0, (CUgraphExec* program, CUgraph graph, CUgraphNode* node, char* text, size_t bytes)) \
  X(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000, 0, (CUgraphExec* program, CUgraph graph, CUgraphNode* node, char* text, size_t bytes)) \
  X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, 0, (CUgraphExec* program, CUgraph graph, unsigned long long flags)) \
  X(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, 0, (CUgraphExec* program, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters)) \
  X(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams", 12000, 1, (CUgraphExec* program, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters)) \
  X(cuGraphUpload, "cuGraphUpload", 11010, 0, (CUgraphExec program, CUstream stream)) \
  X(cuGraphUpload_ptsz, "cuGraphUpload", 11010, 1, (CUgraphExec program, CUstream stream)) \
  X(cuGraphLaunch, "cuGraphLaunch", 10000, 0, (CUgraphExec program, CUstream stream)) \
  X(cuGraphLaunch_ptsz, "cuGraphLaunch", 10000, 1, (CUgraphExec program, CUstream stream)) \
  X(cuCtxCreate, "cuCtxCreate", 2000, 0, (CUcontext* context, unsigned flags, CUdevice device)) \
  X(cuCtxCreate_v2, "cuCtxCreate", 3020, 0, (CUcontext* context, unsigned flags, CUdevice device)) \
  X(cuCtxCreate_v3, "cuCtxCreate", 11040, 0, (CUcontext* context, CUexecAffinityParam* affinity, int count, unsigned flags, CUdevice device)) \
  X(cuCtxCreate_v4, "cuCtxCreate", 12050, 0, (CUcontext* context, ::cubfc::CreateParameters parameters, unsigned flags, CUdevice device)) \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0, (CUcontext* context, CUdevice device)) \
  X(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000, 0, (CUcontext peer, unsigned flags)) \
  X(cuCtxDestroy, "cuCtxDestroy", 2000, 0, (CUcontext context)) \
  X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0, (CUcontext context)) \
  X(cuCtxDetach, "cuCtxDetach", 2000, 0, (CUcontext context)) \
  X(cuCtxAttach, "cuCtxAttach", 2000, 0, (CUcontext* context, unsigned flags)) \
  X(cuGreenCtxCreate, "cuGreenCtxCreate", 12040, 0, (::cubfc::GreenContext* context, ::cubfc::ResourceDescription resources, CUdevice device, unsigned flags)) \
  X(cuGreenCtxDestroy, "cuGreenCtxDestroy", 12040, 0, (::cubfc::GreenContext context)) \
  X(cuCtxFromGreenCtx, "cuCtxFromGreenCtx", 12040, 0, (CUcontext* context, ::cubfc::GreenContext green)) \
  X(cuGreenCtxStreamCreate, "cuGreenCtxStreamCreate", 12050, 0, (CUstream* stream, ::cubfc::GreenContext green, unsigned flags, int priority)) \
  X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, 0, (CUdevice device)) \
  X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0, (CUdevice device)) \
  X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 0, (CUdevice device)) \
  X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0, (CUdevice device))
// clang-format on
