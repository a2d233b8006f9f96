// The driver's functions that cubfc calls but does not intercept, with their parameters: a list
// like that in entry_points.h.
#pragma once

#include <cuda.h>

// clang-format off
// CUBFC_CALLED_FUNCTIONS(Y) calls Y(name, parameters) for each.
#define CUBFC_CALLED_FUNCTIONS(Y) \
  Y(cuCtxGetCurrent, (CUcontext* context)) \
  Y(cuCtxGetDevice, (CUdevice* device)) \
  Y(cuCtxGetId, (CUcontext context, unsigned long long* id)) \
  Y(cuCtxPopCurrent_v2, (CUcontext* context)) \
  Y(cuCtxPushCurrent_v2, (CUcontext context)) \
  Y(cuCtxRecordEvent, (CUcontext context, CUevent event)) \
  Y(cuCtxSynchronize, ()) \
  Y(cuCtxSynchronize_v2, (CUcontext context)) \
  Y(cuDeviceCanAccessPeer, (int* can, CUdevice device, CUdevice peer)) \
  Y(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice device)) \
  Y(cuDeviceGetDefaultMemPool, (CUmemoryPool* pool, CUdevice device)) \
  Y(cuDeviceGetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute attribute, void* value)) \
  Y(cuDeviceGetMemPool, (CUmemoryPool* pool, CUdevice device)) \
  Y(cuDeviceGetName, (char* name, int length, CUdevice device)) \
  Y(cuDeviceGetUuid_v2, (CUuuid* uuid, CUdevice device)) \
  Y(cuDeviceGraphMemTrim, (CUdevice device)) \
  Y(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned* flags, int* active)) \
  Y(cuDriverGetVersion, (int* version)) \
  Y(cuEventQuery, (CUevent event)) \
  Y(cuEventRecord, (CUevent event, CUstream stream)) \
  Y(cuEventSynchronize, (CUevent event)) \
  Y(cuGetErrorName, (CUresult error, const char** name)) \
  Y(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph* graph)) \
  Y(cuGraphGetNodes, (CUgraph graph, CUgraphNode* nodes, size_t* count)) \
  Y(cuGraphMemAllocNodeGetParams, (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* parameters)) \
  Y(cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr* address)) \
  Y(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType* type)) \
  Y(cuMemAddressFree, (CUdeviceptr address, size_t bytes)) \
  Y(cuMemAddressReserve, (CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags)) \
  Y(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER* copy)) \
  Y(cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER* copy)) \
  Y(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER* copy, CUstream stream)) \
  Y(cuMemHostRegister_v2, (void* memory, size_t bytes, unsigned flags)) \
  Y(cuMemGetAllocationGranularity, (size_t* granularity, const CUmemAllocationProp* properties, CUmemAllocationGranularity_flags option)) \
  Y(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep)) \
  Y(cuMemSetAccess, (CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count)) \
  Y(cuStreamGetCtx, (CUstream stream, CUcontext* context)) \
  Y(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus* status)) \
  Y(cuStreamIsCapturing_ptsz, (CUstream stream, CUstreamCaptureStatus* status)) \
  Y(cuStreamQuery, (CUstream stream)) \
  Y(cuStreamSynchronize, (CUstream stream)) \
  Y(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode* mode))
// clang-format on
