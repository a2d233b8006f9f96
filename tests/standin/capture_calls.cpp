// cuStreamBeginCapture to cuStreamEndCapture, and cuThreadExchangeStreamCaptureMode.
#include <utility>

#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"

namespace standin {
namespace {

// Where a capture puts its nodes: null for a graph of its own.
struct Into {
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  const void* edge_data = nullptr;
  std::size_t count = 0;
};

CUresult Begin(CUstream handle, CUstreamCaptureMode mode, const Into& into = {}) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (stream->legacy) return Behaviour("capture.begin.legacy_stream");
  if (stream->capture) return Behaviour("capture.begin.already_capturing");
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Graph> graph;
  DependencySet after;
  if (into.graph) {
    if (const CUresult error = FindGraph(into.graph, graph)) return error;
    if (const CUresult error =
            ReadDependencies(*graph, into.dependencies, into.edge_data, into.count, after)) {
      return error;
    }
  } else {
    graph = NewGraph(GraphOwner::kCapture);
  }
  ++graph->captures;
  stream->capture = std::make_shared<Capture>(Capture{.mode = mode,
                                                      .id = ++state().last_capture_id,
                                                      .thread = std::this_thread::get_id(),
                                                      .origin = stream.get(),
                                                      .graph = graph});
  stream->capture_after = after;
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
  Graph& graph = *capture->graph;
  for (const auto& node : graph.nodes) node->must_be_joined = false;
  const bool complete = capture->valid && joined;
  if (complete && graph.owner == GraphOwner::kCapture) graph.owner = GraphOwner::kProgram;
  LeaveCapture(capture);
  *out = nullptr;
  if (!capture->valid) return Behaviour("capture.end.invalidated");
  if (!joined) return Behaviour("capture.end.unjoined");
  *out = graph.handle;
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
  // The stream's own, which cuda.h lets the caller read until its next call for the stream.
  const CUgraphNode* dependencies = nullptr;
  const EdgeData* edges = nullptr;
  std::size_t count = 0;
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
    out.graph = stream->capture->graph->handle;
    out.dependencies = stream->capture_after.nodes.data();
    out.edges = stream->capture_after.edges.data();
    out.count = stream->capture_after.nodes.size();
  }
  return CUDA_SUCCESS;
}

CUresult InquireAll(CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                    const CUgraphNode** dependencies, std::size_t* count,
                    const EdgeData** edges = nullptr) {
  if (!status || (edges && !dependencies)) return CUDA_ERROR_INVALID_VALUE;
  Info info;
  if (const CUresult error = Inquire(stream, info)) return error;
#if CUDA_VERSION >= 12030
  const bool annotated = std::any_of(info.edges, info.edges + info.count,
                                     [](const EdgeData& edge) { return edge != EdgeData{}; });
  if (dependencies && !edges && annotated) return CUDA_ERROR_LOSSY_QUERY;
#endif
  *status = info.status;
  if (id) *id = info.id;
  if (graph) *graph = info.graph;
  if (dependencies) *dependencies = info.dependencies;
  if (edges) *edges = info.edges;
  if (count) *count = info.count;
  return CUDA_SUCCESS;
}

// cuda.h, cuStreamUpdateCaptureDependencies: what is let go of need not be joined.
void LetGo(const DependencySet& named) {
  std::vector<GraphNode*> waiting;
  for (const CUgraphNode handle : named.nodes) {
    GraphNode* node = nullptr;
    if (FindNode(handle, node) == CUDA_SUCCESS) waiting.push_back(node);
  }
  while (!waiting.empty()) {
    GraphNode* const node = waiting.back();
    waiting.pop_back();
    if (!std::exchange(node->must_be_joined, false)) continue;
    for (const GraphEdge& edge : node->dependencies) waiting.push_back(edge.from);
  }
}

CUresult UpdateDependencies(CUstream handle, const CUgraphNode* nodes, const void* edge_data,
                            std::size_t count, unsigned flags) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (!stream->capture->valid) return Behaviour("capture.work.invalidated");
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES) return CUDA_ERROR_INVALID_VALUE;
  DependencySet named;
  if (const CUresult error =
          ReadDependencies(*stream->capture->graph, nodes, edge_data, count, named)) {
    return error;
  }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    LetGo(stream->capture_after);
    stream->capture_after.clear();
  }
  stream->capture_after.Add(named);
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
  return InquireAll(stream, status, id, graph, dependencies, count,
                    reinterpret_cast<const EdgeData**>(edges));
}

STREAM_ENTRY(cuStreamBeginCaptureToGraph, _ptsz,
             (CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
              const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode),
             (stream, graph, dependencies, edges, count, mode)) {
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  return Begin(stream, mode, {graph, dependencies, edges, count});
}

STREAM_ENTRY(cuStreamUpdateCaptureDependencies_v2, _ptsz,
             (CUstream stream, CUgraphNode* dependencies, const CUgraphEdgeData* edges,
              size_t count, unsigned flags),
             (stream, dependencies, edges, count, flags)) {
  return UpdateDependencies(stream, dependencies, edges, count, flags);
}
#endif

STREAM_ENTRY(cuStreamUpdateCaptureDependencies, _ptsz,
             (CUstream stream, CUgraphNode* dependencies, size_t count, unsigned flags),
             (stream, dependencies, count, flags)) {
  return UpdateDependencies(stream, dependencies, nullptr, count, flags);
}

ENTRY(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (mode)) {
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_state().capture_mode);
  return CUDA_SUCCESS;
}
