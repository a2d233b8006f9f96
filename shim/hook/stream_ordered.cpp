// The wrappers of functions that allocate and free in the order of a stream, and of those that make
// or change the pools for it.
#include "shim/serve/stream_ordered.h"
#include "shim/hook/calls.h"
#include "shim/serve/graph_memory.h"

namespace cubfc {

static CUresult free_in(Process& process, CUdeviceptr address, CUstream stream, bool per_thread) {
  const CUresult result = process.stream_ordered().free(address, stream, per_thread);
  if (result == CUDA_SUCCESS) {
    process.graph_memory().freed(address);
  }
  return result;
}

using Functions = DriverFunctions;

namespace wrapper {
extern "C" {

CUresult cubfc_cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  return answer_to(
      CUBFC_CALLER,
      [&](Process& p) {
        return p.stream_ordered().allocate(address, {bytes, false, nullptr, stream, false});
      },
      &Functions::cuMemAllocAsync, address, bytes, stream);
}

CUresult cubfc_cuMemAllocAsync_ptsz(CUdeviceptr* address, size_t bytes, CUstream stream) {
  return answer_to(
      CUBFC_CALLER,
      [&](Process& p) {
        return p.stream_ordered().allocate(address, {bytes, false, nullptr, stream, true});
      },
      &Functions::cuMemAllocAsync_ptsz, address, bytes, stream);
}

CUresult cubfc_cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                       CUstream stream) {
  return answer_to(
      CUBFC_CALLER,
      [&](Process& p) {
        return p.stream_ordered().allocate(address, {bytes, true, pool, stream, false});
      },
      &Functions::cuMemAllocFromPoolAsync, address, bytes, pool, stream);
}

CUresult cubfc_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                            CUstream stream) {
  return answer_to(
      CUBFC_CALLER,
      [&](Process& p) {
        return p.stream_ordered().allocate(address, {bytes, true, pool, stream, true});
      },
      &Functions::cuMemAllocFromPoolAsync_ptsz, address, bytes, pool, stream);
}

CUresult cubfc_cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return answer([&](Process& p) { return free_in(p, address, stream, false); },
                &Functions::cuMemFreeAsync, address, stream);
}

CUresult cubfc_cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  return answer([&](Process& p) { return free_in(p, address, stream, true); },
                &Functions::cuMemFreeAsync_ptsz, address, stream);
}

CUresult cubfc_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
  return observe([](Process& p) { p.stream_ordered().pools_changed(); },
                 &Functions::cuDeviceSetMemPool, device, pool);
}

CUresult cubfc_cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type,
                               CUmemoryPool pool) {
  return observe([](Process& p) { p.stream_ordered().pools_changed(); },
                 &Functions::cuMemSetMemPool, location, type, pool);
}

CUresult cubfc_cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  return observe([=](Process& p) { p.stream_ordered().pool_made(*pool, *properties); },
                 &Functions::cuMemPoolCreate, pool, properties);
}

CUresult cubfc_cuMemPoolDestroy(CUmemoryPool pool) {
  return answer([&](Process& p) { return p.stream_ordered().destroy_pool(pool); },
                &Functions::cuMemPoolDestroy, pool);
}

CUresult cubfc_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                     void* value) {
  return answer(
      [&](Process& p) { return p.stream_ordered().get_pool_attribute(pool, attribute, value); },
      &Functions::cuMemPoolGetAttribute, pool, attribute, value);
}

CUresult cubfc_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                                     void* value) {
  return answer(
      [&](Process& p) { return p.stream_ordered().set_pool_attribute(pool, attribute, value); },
      &Functions::cuMemPoolSetAttribute, pool, attribute, value);
}

CUresult cubfc_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access, size_t count) {
  return observe([](Process& p) { p.stream_ordered().pools_changed(); },
                 &Functions::cuMemPoolSetAccess, pool, access, count);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
