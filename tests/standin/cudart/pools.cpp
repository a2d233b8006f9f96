// cudaMemPool*, and allocation in stream order.
#include <vector>

#include "convert.h"
#include "forward.h"

using namespace cudart;

CUDART_FORWARD(3, cudaMallocAsync, cuMemAllocAsync)
CUDART_FORWARD(4, cudaMallocFromPoolAsync, cuMemAllocFromPoolAsync)
CUDART_FORWARD(2, cudaFreeAsync, cuMemFreeAsync)
CUDART_FORWARD_WITHOUT_CONTEXT(2, cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool)
CUDART_FORWARD_WITHOUT_CONTEXT(2, cudaDeviceGetMemPool, cuDeviceGetMemPool)
CUDART_FORWARD_WITHOUT_CONTEXT(2, cudaDeviceSetMemPool, cuDeviceSetMemPool)
#if CUDART_VERSION >= 13000
CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaMemGetDefaultMemPool, cuMemGetDefaultMemPool)
CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaMemGetMemPool, cuMemGetMemPool)
CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaMemSetMemPool, cuMemSetMemPool)
#endif
CUDART_FORWARD(1, cudaMemPoolDestroy, cuMemPoolDestroy)
CUDART_FORWARD_WITHOUT_CONTEXT(2, cudaMemPoolTrimTo, cuMemPoolTrimTo)
CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaMemPoolSetAttribute, cuMemPoolSetAttribute)
CUDART_FORWARD_WITHOUT_CONTEXT(3, cudaMemPoolGetAttribute, cuMemPoolGetAttribute)
CUDART_FORWARD(3, cudaMemPoolGetAccess, cuMemPoolGetAccess)
CUDART_FORWARD(4, cudaMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle)
CUDART_FORWARD(4, cudaMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle)
CUDART_FORWARD(2, cudaMemPoolExportPointer, cuMemPoolExportPointer)
CUDART_FORWARD(3, cudaMemPoolImportPointer, cuMemPoolImportPointer)

CUDART_API cudaMemPoolCreate(cudaMemPool_t* out, const cudaMemPoolProps* asked) {
  return WithContext([&](const Driver& driver) {
    if (!asked) return CUDA_ERROR_INVALID_VALUE;
    const CUmemPoolProps properties = PoolProperties(*asked);
    return driver.cuMemPoolCreate(out, &properties);
  });
}

CUDART_API cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* asked, size_t count) {
  return WithContext([&](const Driver& driver) {
    if (!asked) return CUDA_ERROR_INVALID_VALUE;
    std::vector<CUmemAccessDesc> access(count);
    for (size_t i = 0; i < count; ++i) {
      access[i].location = Location(asked[i].location);
      access[i].flags = static_cast<CUmemAccess_flags>(asked[i].flags);
    }
    return driver.cuMemPoolSetAccess(pool, access.data(), count);
  });
}
