// cuStreamBeginCapture to cuStreamEndCapture, and cuThreadExchangeStreamCaptureMode.
#include <utility>

#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"

namespace standin {
namespace {

CUresult Begin(CUstream handle, CUstreamCaptureMode mode) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (stream->legacy) return Behaviour("capture.begin.legacy_stream");
  if (stream->capture) return Behaviour("capture.begin.already_capturing");
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  stream->capture = std::make_shared<Capture>(Capture{.mode = mode,
                                                      .id = ++state().last_capture_id,
                                                      .thread = std::this_thread::get_id(),
                                                      .origin = stream.get()});
  stream->capture_after.clear();
  state().captures.push_back(stream->capture);
  return CUDA_SUCCESS;
}

CUresult End(CUstream handle, CUgraph* out) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (!out) return Behaviour("capture.end.null_output");
  const std::shared_ptr<Capture> capture = stream->capture;
  if (!capture) return Behaviour("capture.end.not_capturing");
  if (capture->origin != stream.get()) return Behaviour("capture.end.forked_stream");
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    return Behaviour("capture.end.wrong_thread");
  }
  const bool joined = AllJoined(*capture);
  LeaveCapture(capture);
  *out = nullptr;
  if (!capture->valid) return Behaviour("capture.end.invalidated");
  if (!joined) return Behaviour("capture.end.unjoined");
  *out = AddTo(state().graphs, capture->graph);
  return CUDA_SUCCESS;
}

CUstreamCaptureStatus StatusOf(const Stream& stream) {
  if (!stream.capture) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->valid ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                               : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

struct Info {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
};

CUresult Inquire(CUstream handle, Info& out) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (stream->legacy) {
    for (const StreamPtr& other : stream->context->streams) {
      if (other->capture && other->blocking()) {
        return Behaviour("capture.info.legacy_stream_blocked");
      }
    }
  }
  out.status = StatusOf(*stream);
  if (out.status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    out.id = stream->capture->id;
    out.graph = reinterpret_cast<CUgraph>(stream->capture->graph.get());
  }
  return CUDA_SUCCESS;
}

// The nodes of a capture are not shown: the list of dependencies is always empty.
CUresult InquireAll(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                    const CUgraphNode** dependencies, std::size_t* count) {
  if (!status) return CUDA_ERROR_INVALID_VALUE;
  Info info;
  if (const CUresult error = Inquire(stream, info)) return error;
  *status = info.status;
  if (id) *id = info.id;
  if (graph) *graph = info.graph;
  if (dependencies) *dependencies = nullptr;
  if (count) *count = 0;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

STREAM_ENTRY(cuStreamBeginCapture, _ptsz, (CUstream stream), (stream)) {
  return Begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

STREAM_ENTRY(cuStreamBeginCapture_v2, _ptsz, (CUstream stream, CUstreamCaptureMode mode),
             (stream, mode)) {
  return Begin(stream, mode);
}

STREAM_ENTRY(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph* out), (stream, out)) {
  return End(stream, out);
}

STREAM_ENTRY(cuStreamIsCapturing, _ptsz, (CUstream stream, CUstreamCaptureStatus* out),
             (stream, out)) {
  return InquireAll(stream, out, nullptr, nullptr, nullptr, nullptr);
}

STREAM_ENTRY(cuStreamGetCaptureInfo, _ptsz,
             (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id),
             (stream, status, id)) {
  return InquireAll(stream, status, id, nullptr, nullptr, nullptr);
}

STREAM_ENTRY(cuStreamGetCaptureInfo_v2, _ptsz,
             (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
              const CUgraphNode** dependencies, size_t* count),
             (stream, status, id, graph, dependencies, count)) {
  return InquireAll(stream, status, id, graph, dependencies, count);
}

#if CUDA_VERSION >= 12030
STREAM_ENTRY(cuStreamGetCaptureInfo_v3, _ptsz,
             (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
              const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count),
             (stream, status, id, graph, dependencies, edges, count)) {
  if (edges) *edges = nullptr;
  return InquireAll(stream, status, id, graph, dependencies, count);
}
#endif

ENTRY(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (mode)) {
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_state().capture_mode);
  return CUDA_SUCCESS;
}
