// cuGraphAddDependencies and cuGraphRemoveDependencies, and what all calls that name dependencies
// have in common. A cycle is found at instantiation.
#include <cstring>

#include "entry_point.h"
#include "graph.h"

namespace standin {
namespace {

EdgeData EdgeAt(const void* edge_data, std::size_t index) {
  EdgeData edge;
  if (edge_data) {
    std::memcpy(&edge, static_cast<const char*>(edge_data) + index * sizeof(edge), sizeof(edge));
  }
  return edge;
}

struct Pair {
  GraphNode* from = nullptr;
  GraphNode* to = nullptr;
  EdgeData data;
};

// Finds the graph and the pairs of its nodes that are named.
CUresult ReadPairs(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                   const void* edge_data, std::size_t count, std::shared_ptr<Graph>& graph,
                   std::vector<Pair>& out) {
  if (const CUresult error = FindGraph(handle, graph)) return error;
  if (count > 0 && (!from || !to)) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    Pair pair;
    if (const CUresult error = FindNode(from[i], pair.from)) return error;
    if (const CUresult error = FindNode(to[i], pair.to)) return error;
    if (pair.from->graph != graph.get() || pair.to->graph != graph.get())
      return CUDA_ERROR_INVALID_VALUE;
    pair.data = EdgeAt(edge_data, i);
    out.push_back(pair);
  }
  return CUDA_SUCCESS;
}

auto FindEdge(GraphNode& to, const GraphNode& from) {
  return std::find_if(to.dependencies.begin(), to.dependencies.end(),
                      [&](const GraphEdge& edge) { return edge.from == &from; });
}

// All or none.
CUresult AddEdges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                  const void* edge_data, std::size_t count) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> graph;
  std::vector<Pair> pairs;
  if (const CUresult error = ReadPairs(handle, from, to, edge_data, count, graph, pairs)) {
    return error;
  }
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& [source, target, data] = pairs[i];
    const bool twice = std::any_of(
        pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(i),
        [&](const Pair& other) { return other.from == pairs[i].from && other.to == pairs[i].to; });
    if (twice || source == target || FindEdge(*target, *source) != target->dependencies.end()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (const CUresult error = CheckEdge(*source, target, data)) return error;
  }
  for (const auto& [source, target, data] : pairs) target->dependencies.push_back({source, data});
  return CUDA_SUCCESS;
}

CUresult RemoveEdges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                     const void* edge_data, std::size_t count) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> graph;
  std::vector<Pair> pairs;
  if (const CUresult error = ReadPairs(handle, from, to, edge_data, count, graph, pairs)) {
    return error;
  }
  if (HasMemoryNodes(*graph)) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& [source, target, data] : pairs) {
    const auto found = FindEdge(*target, *source);
    if (found == target->dependencies.end() || found->data != data) return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& [source, target, data] : pairs) {
    const auto found = FindEdge(*target, *source);
    if (found != target->dependencies.end()) target->dependencies.erase(found);
    source->must_be_joined = false;  // cuda.h, cuStreamGetCaptureInfo: direct action on the graph
  }
  return CUDA_SUCCESS;
}

}  // namespace

// cuda.h, CUgraphEdgeData: only kernel nodes have ports other than 0, for programmatic dependencies
// between them. `to` is null where the node is not there yet.
CUresult CheckEdge(const GraphNode& from, const GraphNode* to, const EdgeData& data) {
  if (data == EdgeData{}) return CUDA_SUCCESS;
  EdgeData programmatic;
  programmatic.from_port = data.from_port;
  programmatic.type = 1;
  const bool known = data == programmatic && (data.from_port == 1 || data.from_port == 2);
  const bool kernels = std::holds_alternative<KernelNode>(from.parameters) &&
                       (!to || std::holds_alternative<KernelNode>(to->parameters));
  return known && kernels ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult ReadDependencies(const Graph& graph, const CUgraphNode* nodes, const void* edge_data,
                          std::size_t count, DependencySet& out) {
  if (count > 0 && !nodes) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* node = nullptr;
    if (const CUresult error = FindNode(nodes[i], node)) return error;
    const EdgeData edge = EdgeAt(edge_data, i);
    if (node->graph != &graph) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = CheckEdge(*node, nullptr, edge)) return error;
    out.Add(nodes[i], edge);
    if (out.nodes.size() != i + 1) return CUDA_ERROR_INVALID_VALUE;  // it is there twice
  }
  return CUDA_SUCCESS;
}

}  // namespace standin

using namespace standin;

ENTRY(cuGraphAddDependencies,
      (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count),
      (graph, from, to, count)) {
  return AddEdges(graph, from, to, nullptr, count);
}

ENTRY(cuGraphRemoveDependencies,
      (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, size_t count),
      (graph, from, to, count)) {
  return RemoveEdges(graph, from, to, nullptr, count);
}

#if CUDA_VERSION >= 12030
static_assert(sizeof(EdgeData) == sizeof(CUgraphEdgeData));

ENTRY(cuGraphAddDependencies_v2,
      (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* edges,
       size_t count),
      (graph, from, to, edges, count)) {
  return AddEdges(graph, from, to, edges, count);
}

ENTRY(cuGraphRemoveDependencies_v2,
      (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* edges,
       size_t count),
      (graph, from, to, edges, count)) {
  return RemoveEdges(graph, from, to, edges, count);
}
#endif
