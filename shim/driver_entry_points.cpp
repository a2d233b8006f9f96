// The exported driver functions. Each is one line over the object that does the work; with no work
// to do it is the driver's own function.
#include <new>

#include "shim/process.h"

namespace cubfc {
namespace {

// Calls the driver's function; one that this driver does not have is not found.
template <typename... Args, typename... Given>
CUresult call(CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  const Driver* driver = Driver::find();
  if (driver == nullptr || driver->call().*function == nullptr) {
    return CUDA_ERROR_NOT_FOUND;
  }
  return (driver->call().*function)(args...);
}

// Our answer, or the driver's when cubfc stands aside.
template <typename Ours, typename... Args, typename... Given>
CUresult answer(Ours ours, CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  Process* process = Process::active();
  if (process == nullptr || process->driver().*function == nullptr) {
    return call(function, args...);
  }
  try {
    return ours(*process);
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;  // of the host
  }
}

// The driver's answer, of which `note` is told when it is a success.
template <typename Note, typename... Args, typename... Given>
CUresult observe(Note note, CUresult (*DriverFunctions::*function)(Args...), Given... args) {
  const CUresult result = call(function, args...);
  if (Process* process = Process::active(); process != nullptr && result == CUDA_SUCCESS) {
    try {
      note(*process);
    } catch (const std::bad_alloc&) {  // what is lost is a note, not the program's result
    }
  }
  return result;
}

// A capture whose end failed may be over all the same.
CUresult end_capture(CUresult (*DriverFunctions::*function)(CUstream, CUgraph*), CUstream stream,
                     CUgraph* graph, bool per_thread) {
  const CUresult result = call(function, stream, graph);
  if (Process* process = Process::active(); process != nullptr) {
    process->captures().maybe_ended(stream, per_thread);
  }
  return result;
}

auto capture_begun(CUstream stream, bool per_thread) {
  return [=](Process& process) { process.captures().begun(stream, per_thread); };
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

// A context's number must be asked for while its handle is good.
CUresult end_context(CUresult (*DriverFunctions::*function)(CUcontext), CUcontext context) {
  Process* process = Process::active();
  const std::uint64_t id = process == nullptr ? 0 : process->contexts().id_of(context);
  const CUresult result = call(function, context);
  if (process != nullptr && result == CUDA_SUCCESS) {
    process->context_ended(id);
  }
  return result;
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
  return answer([&](Process& p) { return p.pointers().retain_handle(handle, address); },
                &Functions::cuMemRetainAllocationHandle, handle, address);
}

CUresult cubfc_cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) noexcept {
  return answer([&](Process& p) { return p.pointers().ipc_handle(handle, address); },
                &Functions::cuIpcGetMemHandle, handle, address);
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

CUresult cubfc_cuStreamBeginCapture(CUstream stream) noexcept {
  return observe(capture_begun(stream, false), &Functions::cuStreamBeginCapture, stream);
}
CUresult cubfc_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) noexcept {
  return observe(capture_begun(stream, false), &Functions::cuStreamBeginCapture_v2, stream, mode);
}
CUresult cubfc_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                           GraphEdges edges, size_t count,
                                           CUstreamCaptureMode mode) noexcept {
  return observe(capture_begun(stream, false), &Functions::cuStreamBeginCaptureToGraph, stream,
                 graph, nodes, edges, count, mode);
}
CUresult cubfc_cuStreamEndCapture(CUstream stream, CUgraph* graph) noexcept {
  return end_capture(&Functions::cuStreamEndCapture, stream, graph, false);
}
CUresult cubfc_cuStreamBeginCapture_ptsz(CUstream stream) noexcept {
  return observe(capture_begun(stream, true), &Functions::cuStreamBeginCapture_ptsz, stream);
}
CUresult cubfc_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) noexcept {
  return observe(capture_begun(stream, true), &Functions::cuStreamBeginCapture_v2_ptsz, stream,
                 mode);
}
CUresult cubfc_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                const CUgraphNode* nodes, GraphEdges edges,
                                                size_t count, CUstreamCaptureMode mode) noexcept {
  return observe(capture_begun(stream, true), &Functions::cuStreamBeginCaptureToGraph_ptsz, stream,
                 graph, nodes, edges, count, mode);
}
CUresult cubfc_cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) noexcept {
  return end_capture(&Functions::cuStreamEndCapture_ptsz, stream, graph, true);
}
CUresult cubfc_cuStreamDestroy(CUstream stream) noexcept {
  return observe([&](Process& p) { p.captures().stream_destroyed(stream); },
                 &Functions::cuStreamDestroy, stream);
}
CUresult cubfc_cuStreamDestroy_v2(CUstream stream) noexcept {
  return observe([&](Process& p) { p.captures().stream_destroyed(stream); },
                 &Functions::cuStreamDestroy_v2, stream);
}

CUresult cubfc_cuCtxDestroy(CUcontext context) noexcept {
  return end_context(&Functions::cuCtxDestroy, context);
}
CUresult cubfc_cuCtxDestroy_v2(CUcontext context) noexcept {
  return end_context(&Functions::cuCtxDestroy_v2, context);
}
CUresult cubfc_cuCtxDetach(CUcontext context) noexcept {
  return end_context(&Functions::cuCtxDetach, context);
}
CUresult cubfc_cuGreenCtxDestroy(GreenContext context) noexcept {
  return observe([](Process& p) { p.contexts().forget_handles(); }, &Functions::cuGreenCtxDestroy,
                 context);
}
CUresult cubfc_cuCtxFromGreenCtx(CUcontext* context, GreenContext green) noexcept {
  return observe([&](Process& p) { p.contexts().is_green(*context); },
                 &Functions::cuCtxFromGreenCtx, context, green);
}
CUresult cubfc_cuDevicePrimaryCtxRelease(CUdevice device) noexcept {
  return observe([=](Process& p) { p.primary_released(device); },
                 &Functions::cuDevicePrimaryCtxRelease, device);
}
CUresult cubfc_cuDevicePrimaryCtxRelease_v2(CUdevice device) noexcept {
  return observe([=](Process& p) { p.primary_released(device); },
                 &Functions::cuDevicePrimaryCtxRelease_v2, device);
}
CUresult cubfc_cuDevicePrimaryCtxReset(CUdevice device) noexcept {
  return observe([=](Process& p) { p.primary_reset(device); }, &Functions::cuDevicePrimaryCtxReset,
                 device);
}
CUresult cubfc_cuDevicePrimaryCtxReset_v2(CUdevice device) noexcept {
  return observe([=](Process& p) { p.primary_reset(device); },
                 &Functions::cuDevicePrimaryCtxReset_v2, device);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
