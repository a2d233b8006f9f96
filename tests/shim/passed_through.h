// The driver's other functions that allocate, free or describe device memory, or make and end
// contexts, by what becomes of them. cubfc does not intercept them; the coverage test holds this
// list and entry_points.h against the toolkit's cuda.h, so that a new function is noticed.
#pragma once

// clang-format off

// Device memory outside the arena that goes to the driver untouched and is not counted against a limit.
#define CUBFC_OUTSIDE_THE_ARENA(Z) \
  Z(cuMulticastCreate) Z(cuMulticastAddDevice) Z(cuMulticastBindMem) Z(cuMulticastBindMem_v2) \
  Z(cuMulticastBindAddr) Z(cuMulticastBindAddr_v2) Z(cuMulticastUnbind) Z(cuMulticastGetGranularity) \
  Z(cuMemPoolTrimTo) \
  Z(cuMemPoolGetAccess) Z(cuMemPoolExportPointer) Z(cuMemPoolExportToShareableHandle) \
  Z(cuMemPoolImportFromShareableHandle) Z(cuMemPoolImportPointer) \
  Z(cuDeviceGetDefaultMemPool) Z(cuDeviceGetMemPool) \
  Z(cuMemGetDefaultMemPool) Z(cuMemGetMemPool) \
  Z(cuDeviceGraphMemTrim) Z(cuDeviceGetGraphMemAttribute) Z(cuDeviceSetGraphMemAttribute) \
  Z(cuGraphAddMemAllocNode) Z(cuGraphAddMemFreeNode) Z(cuGraphMemAllocNodeGetParams) Z(cuGraphMemFreeNodeGetParams) \
  Z(cuImportExternalMemory) Z(cuDestroyExternalMemory) Z(cuExternalMemoryGetMappedBuffer) \
  Z(cuExternalMemoryGetMappedMipmappedArray)

// The 32-bit forms of CUDA 3.1 and before: another ABI under the base name. Never aliased to _v2.
#define CUBFC_THIRTY_TWO_BIT_FORMS(Z) \
  Z(cuMemAlloc) Z(cuMemAllocPitch) Z(cuMemFree) Z(cuMemGetInfo) Z(cuMemGetAddressRange) Z(cuDeviceTotalMem) \
  Z(cuArrayCreate) Z(cuArray3DCreate) Z(cuMemAllocHost) Z(cuMemHostGetDevicePointer)

// Host memory.
#define CUBFC_HOST_MEMORY(Z) \
  Z(cuMemAllocHost_v2) Z(cuMemHostAlloc) Z(cuMemHostRegister) Z(cuMemHostRegister_v2) Z(cuMemHostUnregister) Z(cuMemFreeHost) \
  Z(cuMemHostGetDevicePointer_v2) Z(cuMemHostGetFlags)

// Work on memory, addresses and mappings that somebody else allocated; or on none.
#define CUBFC_WORKS_ON_MEMORY(Z) \
  Z(cuMemAddressReserve) Z(cuMemAddressFree) Z(cuMemSetAccess) Z(cuMemGetAccess) \
  Z(cuMemMapArrayAsync) Z(cuMemMapArrayAsync_ptsz) Z(cuMemExportToShareableHandle) Z(cuMemImportFromShareableHandle) \
  Z(cuMemGetAllocationGranularity) Z(cuMemGetAllocationPropertiesFromHandle) \
  Z(cuMemAdvise) Z(cuMemAdvise_v2) Z(cuMemPrefetchAsync) Z(cuMemPrefetchAsync_ptsz) \
  Z(cuMemPrefetchAsync_v2) Z(cuMemPrefetchAsync_v2_ptsz) Z(cuMemPrefetchBatchAsync) Z(cuMemPrefetchBatchAsync_ptsz) \
  Z(cuMemDiscardBatchAsync) Z(cuMemDiscardBatchAsync_ptsz) \
  Z(cuMemDiscardAndPrefetchBatchAsync) Z(cuMemDiscardAndPrefetchBatchAsync_ptsz) \
  Z(cuMemBatchDecompressAsync) Z(cuMemBatchDecompressAsync_ptsz) \
  Z(cuMemRangeGetAttribute) Z(cuMemRangeGetAttributes) Z(cuStreamAttachMemAsync) Z(cuStreamAttachMemAsync_ptsz) \
  Z(cuArrayGetMemoryRequirements) Z(cuMipmappedArrayGetMemoryRequirements) Z(cuLogsDumpToMemory) \
  Z(cuStreamGetCaptureInfo) Z(cuStreamGetCaptureInfo_ptsz) Z(cuStreamGetCaptureInfo_v2) \
  Z(cuStreamGetCaptureInfo_v2_ptsz) Z(cuStreamGetCaptureInfo_v3) Z(cuStreamGetCaptureInfo_v3_ptsz) \
  Z(cuStreamUpdateCaptureDependencies) Z(cuStreamUpdateCaptureDependencies_ptsz) \
  Z(cuStreamUpdateCaptureDependencies_v2) Z(cuStreamUpdateCaptureDependencies_v2_ptsz) \
  Z(cuThreadExchangeStreamCaptureMode)

// Contexts, what neither makes nor ends one.
#define CUBFC_CONTEXTS(Z) \
  Z(cuCtxDisablePeerAccess) Z(cuDevicePrimaryCtxGetState) Z(cuDevicePrimaryCtxSetFlags) \
  Z(cuDevicePrimaryCtxSetFlags_v2)

#define CUBFC_PASSED_THROUGH(Z) \
  CUBFC_OUTSIDE_THE_ARENA(Z) CUBFC_THIRTY_TWO_BIT_FORMS(Z) CUBFC_HOST_MEMORY(Z) CUBFC_WORKS_ON_MEMORY(Z) \
  CUBFC_CONTEXTS(Z)
// clang-format on
