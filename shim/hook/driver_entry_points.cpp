// The exported driver functions. Each is one line over the object that does the work; with no work
// to do it is the driver's own function.
#include <optional>

#include "shim/hook/entry_point_calls.h"

namespace cubfc {
namespace {

// The driver's answer; where it lacks memory of the device, or of the current context's, the one
// that it has when arenas have given some back. Costs nothing as long as there is memory.
template <typename... Args, typename... Given>
CUresult call_with_room_on(std::optional<CUdevice> device,
                           CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  const CUresult result = call(function, args...);
  Process* const process = result == CUDA_ERROR_OUT_OF_MEMORY ? Process::active() : nullptr;
  if (process == nullptr) {
    return result;
  }
  const NoCancellation no_cancellation;
  return process->memory().make_room_at_driver(device) ? call(function, args...) : result;
}
template <typename... Args, typename... Given>
CUresult call_with_room(CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  return call_with_room_on(std::nullopt, function, args...);
}

// Calls the driver's function to begin a capture; nothing of ours synchronises meanwhile.
template <typename... Args, typename... Given>
CUresult begin_capture(CUresult (*DriverFunctions::*function)(Args...), bool per_thread,
                       CUstream stream, Given... args) {
  Process* process = Process::active();
  if (process == nullptr) {
    return call(function, stream, args...);
  }
  const NoCancellation no_cancellation;
  process->memory().capture_will_begin();
  try {
    process->captures().will_begin();
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;  // of the host: no room to remember the capture
  }
  const CUresult result = call(function, stream, args...);
  process->captures().begun(stream, per_thread, result == CUDA_SUCCESS);
  return result;
}

CUresult end_capture(CUresult (*DriverFunctions::*function)(CUstream, CUgraph*), bool per_thread,
                     CUstream stream, CUgraph* graph) {
  const CUresult result = call(function, stream, graph);
  if (Process* process = Process::active(); process != nullptr) {
    process->captures().end_called(stream, per_thread, result == CUDA_SUCCESS);
  }
  return result;
}

// Routed by the pointer, not by the name: the real resolver knows which ABI a version means.
CUresult route_result(CUresult result, const char* symbol, void** function) {
  const Driver* driver = Driver::find();
  if (result == CUDA_SUCCESS && driver != nullptr && symbol != nullptr && function != nullptr &&
      Process::intercepts()) {
    driver->learn(symbol);
    *function = driver->route(*function);
  }
  return result;
}

// Calls the driver's function to end a context, or to give up a reference to one.
template <typename... Args, typename... Given>
CUresult end_context(const ContextEnd::Which& which, ContextEnd::Call what,
                     CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  std::optional<ContextEnd> end;
  if (Process* process = Process::active(); process != nullptr) {
    end.emplace(process->contexts(), which, what);
  }
  const CUresult result = call(function, args...);
  if (end) {
    const NoCancellation no_cancellation;
    end->answered(result);
  }
  return result;
}
constexpr auto kEndsIt = ContextEnd::Call::kEndsIt;
constexpr auto kGivesUpReference = ContextEnd::Call::kGivesUpReference;

// As soon as the driver has destroyed a stream, another may have its handle.
CUresult destroy_stream(CUresult (*DriverFunctions::*function)(CUstream), CUstream stream) {
  if (Process* process = Process::active(); process != nullptr) {
    process->memory().stream_will_end(stream);
  }
  return observe([=](Process& process) { process.captures().stream_destroyed(stream); }, function,
                 stream);
}

// Calls the driver's function to make a context, or to hand out the primary one.
template <typename... Args, typename... Given>
CUresult create_context(CUcontext* context, CUdevice device,
                        CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  return noted(call_with_room_on(device, function, args...), [=](Process& process) {
    if (context != nullptr) {
      process.contexts().created(*context, device);
    }
  });
}

}  // namespace

using Functions = DriverFunctions;

namespace wrapper {
extern "C" {

CUresult cubfc_cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) noexcept {
  return answer([&](Process& p) { return p.memory().allocate(address, bytes); },
                &Functions::cuMemAlloc_v2, address, bytes);
}

CUresult cubfc_cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                                  unsigned element_bytes) noexcept {
  return answer(
      [&](Process& p) {
        return p.memory().allocate_pitch(address, pitch, width, height, element_bytes);
      },
      &Functions::cuMemAllocPitch_v2, address, pitch, width, height, element_bytes);
}

CUresult cubfc_cuMemFree_v2(CUdeviceptr address) noexcept {
  return answer([&](Process& p) { return p.memory().free(address); }, &Functions::cuMemFree_v2,
                address);
}

CUresult cubfc_cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) noexcept {
  return answer(
      [&](Process& p) {
        return p.memory().allocate_async(address, {bytes, false, nullptr, stream, false});
      },
      &Functions::cuMemAllocAsync, address, bytes, stream);
}

CUresult cubfc_cuMemAllocAsync_ptsz(CUdeviceptr* address, size_t bytes, CUstream stream) noexcept {
  return answer(
      [&](Process& p) {
        return p.memory().allocate_async(address, {bytes, false, nullptr, stream, true});
      },
      &Functions::cuMemAllocAsync_ptsz, address, bytes, stream);
}

CUresult cubfc_cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                       CUstream stream) noexcept {
  return answer(
      [&](Process& p) {
        return p.memory().allocate_async(address, {bytes, true, pool, stream, false});
      },
      &Functions::cuMemAllocFromPoolAsync, address, bytes, pool, stream);
}

CUresult cubfc_cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                            CUstream stream) noexcept {
  return answer(
      [&](Process& p) {
        return p.memory().allocate_async(address, {bytes, true, pool, stream, true});
      },
      &Functions::cuMemAllocFromPoolAsync_ptsz, address, bytes, pool, stream);
}

CUresult cubfc_cuMemFreeAsync(CUdeviceptr address, CUstream stream) noexcept {
  return answer([&](Process& p) { return p.memory().free_async(address, stream, false); },
                &Functions::cuMemFreeAsync, address, stream);
}

CUresult cubfc_cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) noexcept {
  return answer([&](Process& p) { return p.memory().free_async(address, stream, true); },
                &Functions::cuMemFreeAsync_ptsz, address, stream);
}

CUresult cubfc_cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) noexcept {
  return answer([&](Process& p) { return p.memory().info(free_bytes, total_bytes); },
                &Functions::cuMemGetInfo_v2, free_bytes, total_bytes);
}

CUresult cubfc_cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) noexcept {
  return answer([&](Process& p) { return p.memory().total(bytes, device); },
                &Functions::cuDeviceTotalMem_v2, bytes, device);
}

CUresult cubfc_cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes,
                                       CUdeviceptr address) noexcept {
  return answer([&](Process& p) { return p.pointers().address_range(base, bytes, address); },
                &Functions::cuMemGetAddressRange_v2, base, bytes, address);
}

CUresult cubfc_cuPointerGetAttribute(void* value, CUpointer_attribute attribute,
                                     CUdeviceptr address) noexcept {
  return answer([&](Process& p) { return p.pointers().attribute(value, attribute, address); },
                &Functions::cuPointerGetAttribute, value, attribute, address);
}

CUresult cubfc_cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes,
                                      void** values, CUdeviceptr address) noexcept {
  return answer(
      [&](Process& p) { return p.pointers().attributes(count, attributes, values, address); },
      &Functions::cuPointerGetAttributes, count, attributes, values, address);
}

CUresult cubfc_cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                     CUdeviceptr address) noexcept {
  return answer([&](Process& p) { return p.pointers().set_attribute(value, attribute, address); },
                &Functions::cuPointerSetAttribute, value, attribute, address);
}

CUresult cubfc_cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t bytes,
                                             CUmemRangeHandleType type,
                                             unsigned long long flags) noexcept {
  return answer(
      [&](Process& p) {
        return p.pointers().handle_for_range(handle, address, bytes, type, flags);
      },
      &Functions::cuMemGetHandleForAddressRange, handle, address, bytes, type, flags);
}

CUresult cubfc_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                           void* address) noexcept {
  return answer(
      [&](Process& p) {
        const CUresult result = p.pointers().retain_handle(handle, address);
        if (result == CUDA_SUCCESS) {
          p.physical().retained(*handle, reinterpret_cast<CUdeviceptr>(address));
        }
        return result;
      },
      &Functions::cuMemRetainAllocationHandle, handle, address);
}

CUresult cubfc_cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) noexcept {
  return answer([&](Process& p) { return p.memory().allocate_managed(address, bytes, flags); },
                &Functions::cuMemAllocManaged, address, bytes, flags);
}

CUresult cubfc_cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                           const CUmemAllocationProp* properties,
                           unsigned long long flags) noexcept {
  return answer([&](Process& p) { return p.physical().create(handle, bytes, properties, flags); },
                &Functions::cuMemCreate, handle, bytes, properties, flags);
}
CUresult cubfc_cuMemRelease(CUmemGenericAllocationHandle handle) noexcept {
  return answer([&](Process& p) { return p.physical().release(handle); }, &Functions::cuMemRelease,
                handle);
}
CUresult cubfc_cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                        CUmemGenericAllocationHandle handle, unsigned long long flags) noexcept {
  return answer([&](Process& p) { return p.physical().map(address, bytes, offset, handle, flags); },
                &Functions::cuMemMap, address, bytes, offset, handle, flags);
}
CUresult cubfc_cuMemUnmap(CUdeviceptr address, size_t bytes) noexcept {
  return answer([&](Process& p) { return p.physical().unmap(address, bytes); },
                &Functions::cuMemUnmap, address, bytes);
}

CUresult cubfc_cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* shape) noexcept {
  return answer([&](Process& p) { return p.arrays().create(array, shape); },
                &Functions::cuArrayCreate_v2, array, shape);
}
CUresult cubfc_cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape) noexcept {
  return answer([&](Process& p) { return p.arrays().create_3d(array, shape); },
                &Functions::cuArray3DCreate_v2, array, shape);
}
CUresult cubfc_cuArrayDestroy(CUarray array) noexcept {
  return answer([&](Process& p) { return p.arrays().destroy(array); }, &Functions::cuArrayDestroy,
                array);
}
CUresult cubfc_cuMipmappedArrayCreate(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape,
                                      unsigned levels) noexcept {
  return answer([&](Process& p) { return p.arrays().create_mipmapped(array, shape, levels); },
                &Functions::cuMipmappedArrayCreate, array, shape, levels);
}
CUresult cubfc_cuMipmappedArrayDestroy(CUmipmappedArray array) noexcept {
  return answer([&](Process& p) { return p.arrays().destroy_mipmapped(array); },
                &Functions::cuMipmappedArrayDestroy, array);
}

CUresult cubfc_cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) noexcept {
  return answer([&](Process& p) { return p.ipc().handle_of(handle, address); },
                &Functions::cuIpcGetMemHandle, handle, address);
}
CUresult cubfc_cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle,
                                  unsigned flags) noexcept {
  return answer(
      [&](Process& p) {
        return p.ipc().open(address, handle, flags, p.driver().cuIpcOpenMemHandle);
      },
      &Functions::cuIpcOpenMemHandle, address, handle, flags);
}
CUresult cubfc_cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle,
                                     unsigned flags) noexcept {
  return answer(
      [&](Process& p) {
        return p.ipc().open(address, handle, flags, p.driver().cuIpcOpenMemHandle_v2);
      },
      &Functions::cuIpcOpenMemHandle_v2, address, handle, flags);
}
CUresult cubfc_cuIpcCloseMemHandle(CUdeviceptr address) noexcept {
  return answer([&](Process& p) { return p.ipc().close(address); }, &Functions::cuIpcCloseMemHandle,
                address);
}

CUresult cubfc_cuGetProcAddress(const char* symbol, void** function, int version,
                                cuuint64_t flags) noexcept {
  const CUresult result = call(&Functions::cuGetProcAddress, symbol, function, version, flags);
  return route_result(result, symbol, function);
}

CUresult cubfc_cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                   cuuint64_t flags,
                                   CUdriverProcAddressQueryResult* status) noexcept {
  const CUresult result =
      call(&Functions::cuGetProcAddress_v2, symbol, function, version, flags, status);
  return route_result(result, symbol, function);
}

CUresult cubfc_cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) noexcept {
  return observe([](Process& p) { p.memory().pools_changed(); }, &Functions::cuDeviceSetMemPool,
                 device, pool);
}
CUresult cubfc_cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type,
                               CUmemoryPool pool) noexcept {
  return observe([](Process& p) { p.memory().pools_changed(); }, &Functions::cuMemSetMemPool,
                 location, type, pool);
}
CUresult cubfc_cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) noexcept {
  return observe(
      [=](Process& p) {
        if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
          if (Device* const device = p.contexts().device(properties->location.id)) {
            device->pools.add(*pool, Pools::Owner::kProgram);
          }
        } else if (properties->allocType == CU_MEM_ALLOCATION_TYPE_PINNED) {
          p.memory().host_pool_made(*pool);
        }
      },
      &Functions::cuMemPoolCreate, pool, properties);
}
CUresult cubfc_cuMemPoolDestroy(CUmemoryPool pool) noexcept {
  Process* process = Process::active();
  if (process != nullptr) {
    process->memory().pool_will_end(pool);
    process->contexts().for_each_device(
        [&](Device& device) { device.pools.will_be_destroyed(pool); });
  }
  const CUresult result = call(&Functions::cuMemPoolDestroy, pool);
  if (process != nullptr && result != CUDA_SUCCESS) {
    process->contexts().for_each_device([&](Device& device) { device.pools.not_destroyed(pool); });
  }
  return result;
}
CUresult cubfc_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access,
                                  size_t count) noexcept {
  return observe([](Process& p) { p.memory().pools_changed(); }, &Functions::cuMemPoolSetAccess,
                 pool, access, count);
}

CUresult cubfc_cuStreamBeginCapture(CUstream stream) noexcept {
  return begin_capture(&Functions::cuStreamBeginCapture, false, stream);
}
CUresult cubfc_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) noexcept {
  return begin_capture(&Functions::cuStreamBeginCapture_v2, false, stream, mode);
}
CUresult cubfc_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                           GraphEdges edges, size_t count,
                                           CUstreamCaptureMode mode) noexcept {
  return begin_capture(&Functions::cuStreamBeginCaptureToGraph, false, stream, graph, nodes, edges,
                       count, mode);
}
CUresult cubfc_cuStreamEndCapture(CUstream stream, CUgraph* graph) noexcept {
  return end_capture(&Functions::cuStreamEndCapture, false, stream, graph);
}
CUresult cubfc_cuStreamBeginCapture_ptsz(CUstream stream) noexcept {
  return begin_capture(&Functions::cuStreamBeginCapture_ptsz, true, stream);
}
CUresult cubfc_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) noexcept {
  return begin_capture(&Functions::cuStreamBeginCapture_v2_ptsz, true, stream, mode);
}
CUresult cubfc_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                const CUgraphNode* nodes, GraphEdges edges,
                                                size_t count, CUstreamCaptureMode mode) noexcept {
  return begin_capture(&Functions::cuStreamBeginCaptureToGraph_ptsz, true, stream, graph, nodes,
                       edges, count, mode);
}
CUresult cubfc_cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) noexcept {
  return end_capture(&Functions::cuStreamEndCapture_ptsz, true, stream, graph);
}
CUresult cubfc_cuStreamDestroy(CUstream stream) noexcept {
  return destroy_stream(&Functions::cuStreamDestroy, stream);
}
CUresult cubfc_cuStreamDestroy_v2(CUstream stream) noexcept {
  return destroy_stream(&Functions::cuStreamDestroy_v2, stream);
}

CUresult cubfc_cuModuleLoad(CUmodule* module, const char* path) noexcept {
  return call_with_room(&Functions::cuModuleLoad, module, path);
}
CUresult cubfc_cuModuleLoadData(CUmodule* module, const void* image) noexcept {
  return call_with_room(&Functions::cuModuleLoadData, module, image);
}
CUresult cubfc_cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                                  CUjit_option* options, void** values) noexcept {
  // Values of options may be results, too: a second call would take those of the first.
  return count == 0
             ? call_with_room(&Functions::cuModuleLoadDataEx, module, image, count, options, values)
             : call(&Functions::cuModuleLoadDataEx, module, image, count, options, values);
}
CUresult cubfc_cuModuleLoadFatBinary(CUmodule* module, const void* image) noexcept {
  return call_with_room(&Functions::cuModuleLoadFatBinary, module, image);
}
CUresult cubfc_cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options,
                                 void** values, unsigned count, CUlibraryOption* library_options,
                                 void** library_values, unsigned library_count) noexcept {
  return count == 0 ? call_with_room(&Functions::cuLibraryLoadData, library, code, options, values,
                                     count, library_options, library_values, library_count)
                    : call(&Functions::cuLibraryLoadData, library, code, options, values, count,
                           library_options, library_values, library_count);
}
CUresult cubfc_cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* options,
                                     void** values, unsigned count,
                                     CUlibraryOption* library_options, void** library_values,
                                     unsigned library_count) noexcept {
  return count == 0 ? call_with_room(&Functions::cuLibraryLoadFromFile, library, path, options,
                                     values, count, library_options, library_values, library_count)
                    : call(&Functions::cuLibraryLoadFromFile, library, path, options, values, count,
                           library_options, library_values, library_count);
}
// A module that loads lazily takes its memory when a kernel of it is asked for.
CUresult cubfc_cuModuleGetFunction(CUfunction* function, CUmodule module,
                                   const char* symbol) noexcept {
  return call_with_room(&Functions::cuModuleGetFunction, function, module, symbol);
}
CUresult cubfc_cuLibraryGetKernel(CUkernel* kernel, CUlibrary library,
                                  const char* symbol) noexcept {
  return call_with_room(&Functions::cuLibraryGetKernel, kernel, library, symbol);
}
CUresult cubfc_cuLibraryGetModule(CUmodule* module, CUlibrary library) noexcept {
  return call_with_room(&Functions::cuLibraryGetModule, module, library);
}
CUresult cubfc_cuKernelGetFunction(CUfunction* function, CUkernel kernel) noexcept {
  return call_with_room(&Functions::cuKernelGetFunction, function, kernel);
}
CUresult cubfc_cuCtxSetLimit(CUlimit limit, size_t value) noexcept {
  return call_with_room(&Functions::cuCtxSetLimit, limit, value);
}
CUresult cubfc_cuGraphInstantiate(CUgraphExec* program, CUgraph graph, CUgraphNode* node,
                                  char* text, size_t bytes) noexcept {
  return call_with_room(&Functions::cuGraphInstantiate, program, graph, node, text, bytes);
}
CUresult cubfc_cuGraphInstantiate_v2(CUgraphExec* program, CUgraph graph, CUgraphNode* node,
                                     char* text, size_t bytes) noexcept {
  return call_with_room(&Functions::cuGraphInstantiate_v2, program, graph, node, text, bytes);
}
CUresult cubfc_cuGraphInstantiateWithFlags(CUgraphExec* program, CUgraph graph,
                                           unsigned long long flags) noexcept {
  return call_with_room(&Functions::cuGraphInstantiateWithFlags, program, graph, flags);
}
CUresult cubfc_cuGraphInstantiateWithParams(CUgraphExec* program, CUgraph graph,
                                            CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) noexcept {
  return call_with_room(&Functions::cuGraphInstantiateWithParams, program, graph, parameters);
}
CUresult cubfc_cuGraphInstantiateWithParams_ptsz(
    CUgraphExec* program, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) noexcept {
  return call_with_room(&Functions::cuGraphInstantiateWithParams_ptsz, program, graph, parameters);
}
CUresult cubfc_cuGraphUpload(CUgraphExec program, CUstream stream) noexcept {
  return call_with_room(&Functions::cuGraphUpload, program, stream);
}
CUresult cubfc_cuGraphUpload_ptsz(CUgraphExec program, CUstream stream) noexcept {
  return call_with_room(&Functions::cuGraphUpload_ptsz, program, stream);
}
CUresult cubfc_cuGraphLaunch(CUgraphExec program, CUstream stream) noexcept {
  return call_with_room(&Functions::cuGraphLaunch, program, stream);
}
CUresult cubfc_cuGraphLaunch_ptsz(CUgraphExec program, CUstream stream) noexcept {
  return call_with_room(&Functions::cuGraphLaunch_ptsz, program, stream);
}

CUresult cubfc_cuCtxCreate(CUcontext* context, unsigned flags, CUdevice device) noexcept {
  return create_context(context, device, &Functions::cuCtxCreate, context, flags, device);
}
CUresult cubfc_cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) noexcept {
  return create_context(context, device, &Functions::cuCtxCreate_v2, context, flags, device);
}
CUresult cubfc_cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count,
                              unsigned flags, CUdevice device) noexcept {
  return create_context(context, device, &Functions::cuCtxCreate_v3, context, affinity, count,
                        flags, device);
}
CUresult cubfc_cuCtxCreate_v4(CUcontext* context, CreateParameters parameters, unsigned flags,
                              CUdevice device) noexcept {
  return create_context(context, device, &Functions::cuCtxCreate_v4, context, parameters, flags,
                        device);
}
CUresult cubfc_cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) noexcept {
  return noted(
      create_context(context, device, &Functions::cuDevicePrimaryCtxRetain, context, device),
      [=](Process& process) { process.contexts().reference_taken(device); });
}
// The current context's device will use other devices' memory, and may not be known yet.
CUresult cubfc_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) noexcept {
  return observe([](Process& p) { p.contexts().current(); }, &Functions::cuCtxEnablePeerAccess,
                 peer, flags);
}
CUresult cubfc_cuCtxDestroy(CUcontext context) noexcept {
  return end_context({context}, kEndsIt, &Functions::cuCtxDestroy, context);
}
CUresult cubfc_cuCtxDestroy_v2(CUcontext context) noexcept {
  return end_context({context}, kEndsIt, &Functions::cuCtxDestroy_v2, context);
}
CUresult cubfc_cuCtxDetach(CUcontext context) noexcept {
  return end_context({context}, kGivesUpReference, &Functions::cuCtxDetach, context);
}
CUresult cubfc_cuCtxAttach(CUcontext* context, unsigned flags) noexcept {
  return observe(
      [](Process& process) {
        if (Context* const current = process.contexts().current(); current != nullptr) {
          process.contexts().reference_taken(*current);
        }
      },
      &Functions::cuCtxAttach, context, flags);
}
// cuda.h, cuGreenCtxCreate: a green context retains the primary context until it is destroyed.
CUresult cubfc_cuGreenCtxCreate(GreenContext* context, ResourceDescription resources,
                                CUdevice device, unsigned flags) noexcept {
  return noted(
      call_with_room_on(device, &Functions::cuGreenCtxCreate, context, resources, device, flags),
      [=](Process& process) {
        process.contexts().green_made(*context, device);  // if that fails, nothing is counted
        process.contexts().reference_taken(device);
      });
}
CUresult cubfc_cuGreenCtxDestroy(GreenContext context) noexcept {
  Process* const process = Process::active();
  const auto device =
      process == nullptr ? std::nullopt : process->contexts().device_of_green(context);
  if (process != nullptr) {
    process->contexts().green_ended(context);  // before another can have its handle
  }
  return end_context({nullptr, device}, kGivesUpReference, &Functions::cuGreenCtxDestroy, context);
}
CUresult cubfc_cuCtxFromGreenCtx(CUcontext* context, GreenContext green) noexcept {
  return observe([&](Process& p) { p.contexts().is_green(*context); },
                 &Functions::cuCtxFromGreenCtx, context, green);
}
CUresult cubfc_cuDevicePrimaryCtxRelease(CUdevice device) noexcept {
  return end_context({nullptr, device}, kGivesUpReference, &Functions::cuDevicePrimaryCtxRelease,
                     device);
}
CUresult cubfc_cuDevicePrimaryCtxRelease_v2(CUdevice device) noexcept {
  return end_context({nullptr, device}, kGivesUpReference, &Functions::cuDevicePrimaryCtxRelease_v2,
                     device);
}
CUresult cubfc_cuDevicePrimaryCtxReset(CUdevice device) noexcept {
  return end_context({nullptr, device}, kEndsIt, &Functions::cuDevicePrimaryCtxReset, device);
}
CUresult cubfc_cuDevicePrimaryCtxReset_v2(CUdevice device) noexcept {
  return end_context({nullptr, device}, kEndsIt, &Functions::cuDevicePrimaryCtxReset_v2, device);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
