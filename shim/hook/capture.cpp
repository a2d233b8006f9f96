// The wrappers of functions that begin or end a capture, or destroy a stream. The driver does the
// work; Captures and WaitingFrees are told before or after.
#include "shim/driver/captures.h"
#include "shim/hook/calls.h"
#include "shim/wait/waiting_frees.h"

namespace cubfc {
namespace {

// Calls the driver's function that begins a capture. From will_begin() until the capture has ended,
// nothing of cubfc's synchronises.
template <typename... Args, typename... Given>
CUresult begin_capture(CUresult (*DriverFunctions::*function)(Args...), bool per_thread,
                       CUstream stream, Given... args) {
  Process* process = Process::active();
  if (process == nullptr) {
    return call(function, stream, args...);
  }
  const NoCancellation no_cancellation;
  process->waiting().prepare_for_capture();
  try {
    process->captures().will_begin();
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;  // the host has no memory to remember the capture
  }
  const CUresult result = call(function, stream, args...);
  process->captures().begun(stream, per_thread, result == CUDA_SUCCESS);
  return result;
}

// Calls the driver's function that ends a capture. Blocks that were freed during the capture are
// not collected here: the next free or allocation does that (DeviceFrees).
CUresult end_capture(CUresult (*DriverFunctions::*function)(CUstream, CUgraph*), bool per_thread,
                     CUstream stream, CUgraph* graph) {
  const CUresult result = call(function, stream, graph);
  if (Process* process = Process::active(); process != nullptr) {
    const NoCancellation no_cancellation;
    process->captures().end_called(stream, per_thread, result == CUDA_SUCCESS);
  }
  return result;
}

// WaitingFrees is told before the driver's call: as soon as a stream is destroyed, another may have
// its handle.
CUresult destroy_stream(CUresult (*DriverFunctions::*function)(CUstream), CUstream stream) {
  if (Process* process = Process::active(); process != nullptr) {
    const NoCancellation no_cancellation;
    process->waiting().stream_will_end(stream);
  }
  return observe([=](Process& process) { process.captures().stream_destroyed(stream); }, function,
                 stream);
}

}  // namespace

using Functions = DriverFunctions;

namespace wrapper {
extern "C" {

CUresult cubfc_cuStreamBeginCapture(CUstream stream) {
  return begin_capture(&Functions::cuStreamBeginCapture, false, stream);
}

CUresult cubfc_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return begin_capture(&Functions::cuStreamBeginCapture_v2, false, stream, mode);
}

CUresult cubfc_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph, const CUgraphNode* nodes,
                                           GraphEdges edges, size_t count,
                                           CUstreamCaptureMode mode) {
  return begin_capture(&Functions::cuStreamBeginCaptureToGraph, false, stream, graph, nodes, edges,
                       count, mode);
}

CUresult cubfc_cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return end_capture(&Functions::cuStreamEndCapture, false, stream, graph);
}

CUresult cubfc_cuStreamBeginCapture_ptsz(CUstream stream) {
  return begin_capture(&Functions::cuStreamBeginCapture_ptsz, true, stream);
}

CUresult cubfc_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return begin_capture(&Functions::cuStreamBeginCapture_v2_ptsz, true, stream, mode);
}

CUresult cubfc_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                                const CUgraphNode* nodes, GraphEdges edges,
                                                size_t count, CUstreamCaptureMode mode) {
  return begin_capture(&Functions::cuStreamBeginCaptureToGraph_ptsz, true, stream, graph, nodes,
                       edges, count, mode);
}

CUresult cubfc_cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return end_capture(&Functions::cuStreamEndCapture_ptsz, true, stream, graph);
}

CUresult cubfc_cuStreamDestroy(CUstream stream) {
  return destroy_stream(&Functions::cuStreamDestroy, stream);
}

CUresult cubfc_cuStreamDestroy_v2(CUstream stream) {
  return destroy_stream(&Functions::cuStreamDestroy_v2, stream);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
