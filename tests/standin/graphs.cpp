// cuGraph*: what a capture recorded, run again. Nodes cannot be added by hand.
#include "allocate.h"
#include "behaviour.h"
#include "entry_point.h"
#include "work.h"

namespace standin {
namespace {

CUresult Instantiate(CUgraphExec* out, CUgraph handle) {
  const Lock lock(state().mutex);
  const auto found = state().graphs.find(handle);
  if (!out || found == state().graphs.end()) return CUDA_ERROR_INVALID_VALUE;
  *out = AddTo(state().graph_execs, std::make_shared<Graph>(*found->second));
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult Destroy(Registry<Handle, Graph>& graphs, Handle handle) {
  const Lock lock(state().mutex);
  const auto found = graphs.find(handle);
  if (found == graphs.end()) return CUDA_ERROR_INVALID_VALUE;
  const auto memory = std::move(found->second->memory);
  if (memory && memory.use_count() == 1) {
    for (const CUdeviceptr base : *memory) Release(base);
  }
  graphs.erase(found);
  return CUDA_SUCCESS;
}

void RunNodes(const Graph& graph, std::chrono::nanoseconds delay) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    // The first node's delay is that of the launch.
    if (i > 0 && delay.count() > 0) std::this_thread::sleep_for(delay);
    if (graph.nodes[i].run) graph.nodes[i].run();
  }
}

CUresult Launch(CUgraphExec handle, CUstream stream_handle) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(stream_handle, stream)) return error;
  const auto found = state().graph_execs.find(handle);
  if (found == state().graph_execs.end()) return CUDA_ERROR_INVALID_VALUE;
  return Submit(*stream,
                [graph = found->second, delay = state().work_delay] { RunNodes(*graph, delay); });
}

// The memory of a graph is its own as long as the graph is there.
CUresult GraphMemory(CUdevice ordinal, cuuint64_t* out) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  for (const auto& [base, allocation] : state().allocations) {
    if (allocation.kind == Kind::kGraph && allocation.device == ordinal) *out += allocation.bytes;
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuGraphCreate, (CUgraph * out, unsigned flags), (out, flags)) {
  if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(state().mutex);
  *out = AddTo(state().graphs, std::make_shared<Graph>());
  return CUDA_SUCCESS;
}

ENTRY(cuGraphDestroy, (CUgraph graph), (graph)) {
  return Destroy(state().graphs, graph);
}
ENTRY(cuGraphExecDestroy, (CUgraphExec exec), (exec)) {
  return Destroy(state().graph_execs, exec);
}

ENTRY(cuGraphInstantiate,
      (CUgraphExec * out, CUgraph graph, CUgraphNode* node, char* log, size_t log_bytes),
      (out, graph, node, log, log_bytes)) {
  (void)node, (void)log, (void)log_bytes;
  return Instantiate(out, graph);
}

ENTRY(cuGraphInstantiate_v2,
      (CUgraphExec * out, CUgraph graph, CUgraphNode* node, char* log, size_t log_bytes),
      (out, graph, node, log, log_bytes)) {
  (void)node, (void)log, (void)log_bytes;
  return Instantiate(out, graph);
}

ENTRY(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph graph, unsigned long long flags),
      (out, graph, flags)) {
  (void)flags;
  return Instantiate(out, graph);
}

STREAM_ENTRY(cuGraphInstantiateWithParams, _ptsz,
             (CUgraphExec * out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters),
             (out, graph, parameters)) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  parameters->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return Instantiate(out, graph);
}

STREAM_ENTRY(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream)) {
  return Launch(exec, stream);
}

STREAM_ENTRY(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream stream), (exec, stream)) {
  (void)stream;
  const Lock lock(state().mutex);
  return state().graph_execs.contains(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuGraphGetNodes, (CUgraph graph, CUgraphNode* nodes, size_t* count), (graph, nodes, count)) {
  const Lock lock(state().mutex);
  const auto found = state().graphs.find(graph);
  if (!count || found == state().graphs.end()) return CUDA_ERROR_INVALID_VALUE;
  if (nodes) return CUDA_ERROR_NOT_SUPPORTED;
  *count = found->second->nodes.size();
  return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute attribute, void* value),
      (device, attribute, value)) {
  (void)attribute;  // a graph's memory is never more than now, nor reserved and not used
  return GraphMemory(device, static_cast<cuuint64_t*>(value));
}

ENTRY(cuDeviceGraphMemTrim, (CUdevice device), (device)) {
  cuuint64_t ignored = 0;
  return GraphMemory(device, &ignored);
}
