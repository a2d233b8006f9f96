// What a graph consists of: cuGraphGet*, cuGraphNodeGet*.
#include <cstring>
#include <set>

#include "entry_point.h"
#include "graph.h"

namespace standin {
namespace {

// A relation of nodes, as cuda.h's functions list them: of a node's dependencies only `from` is
// shown, of its dependent nodes only `to`.
struct Edge {
  CUgraphNode from;
  CUgraphNode to;
  EdgeData data = {};
};
using Edges = std::vector<Edge>;

// cuda.h: without an array only the number is told; entries beyond the number are set to null.
void Fill(CUgraphNode* out, std::size_t room, const Edges& edges, CUgraphNode Edge::*which) {
  for (std::size_t i = 0; out && i < room; ++i) {
    out[i] = i < edges.size() ? edges[i].*which : nullptr;
  }
}

CUresult FillEdgeData(void* out, std::size_t room, const Edges& edges) {
  for (std::size_t i = 0; i < std::min(room, edges.size()); ++i) {
    if (out) {
      std::memcpy(static_cast<char*>(out) + i * sizeof(EdgeData), &edges[i].data, sizeof(EdgeData));
    } else if (edges[i].data != EdgeData{}) {
#if CUDA_VERSION >= 12030
      return CUDA_ERROR_LOSSY_QUERY;
#endif
    }
  }
  return CUDA_SUCCESS;
}

CUresult ListNodes(const Edges& edges, CUgraphNode Edge::*which, CUgraphNode* out, void* edge_data,
                   std::size_t* count) {
  if (!count || (edge_data && !out)) return CUDA_ERROR_INVALID_VALUE;
  if (!out) {
    *count = edges.size();
    return CUDA_SUCCESS;
  }
  if (const CUresult error = FillEdgeData(edge_data, *count, edges)) return error;
  Fill(out, *count, edges, which);
  *count = std::min(*count, edges.size());
  return CUDA_SUCCESS;
}

CUresult GetNodes(CUgraph handle, CUgraphNode* out, std::size_t* count, bool roots_only) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> graph;
  if (const CUresult error = FindGraph(handle, graph)) return error;
  Edges nodes;
  for (const auto& node : graph->nodes) {
    if (!roots_only || node->dependencies.empty()) nodes.push_back({node->handle, nullptr});
  }
  return ListNodes(nodes, &Edge::from, out, nullptr, count);
}

Edges EdgesOf(const Graph& graph) {
  Edges edges;
  for (const auto& node : graph.nodes) {
    for (const GraphEdge& edge : node->dependencies) {
      edges.push_back({edge.from->handle, node->handle, edge.data});
    }
  }
  return edges;
}

CUresult GetEdges(CUgraph handle, CUgraphNode* from, CUgraphNode* to, void* edge_data,
                  std::size_t* count) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> graph;
  if (const CUresult error = FindGraph(handle, graph)) return error;
  if (!from != !to) return CUDA_ERROR_INVALID_VALUE;
  const Edges edges = EdgesOf(*graph);
  const std::size_t room = count ? *count : 0;
  if (const CUresult error = ListNodes(edges, &Edge::from, from, edge_data, count)) return error;
  Fill(to, room, edges, &Edge::to);
  return CUDA_SUCCESS;
}

CUresult GetDependencies(CUgraphNode handle, CUgraphNode* out, void* edge_data,
                         std::size_t* count) {
  const Lock lock(state().mutex);
  GraphNode* node = nullptr;
  if (const CUresult error = FindNode(handle, node)) return error;
  Edges edges;
  for (const GraphEdge& edge : node->dependencies) {
    edges.push_back({edge.from->handle, handle, edge.data});
  }
  return ListNodes(edges, &Edge::from, out, edge_data, count);
}

CUresult GetDependentNodes(CUgraphNode handle, CUgraphNode* out, void* edge_data,
                           std::size_t* count) {
  const Lock lock(state().mutex);
  GraphNode* node = nullptr;
  if (const CUresult error = FindNode(handle, node)) return error;
  Edges edges = EdgesOf(*node->graph);
  std::erase_if(edges, [&](const Edge& edge) { return edge.from != handle; });
  return ListNodes(edges, &Edge::to, out, edge_data, count);
}

CUresult GetType(CUgraphNode handle, CUgraphNodeType* out) {
  const Lock lock(state().mutex);
  GraphNode* node = nullptr;
  if (const CUresult error = FindNode(handle, node)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = TypeOf(node->parameters);
  return CUDA_SUCCESS;
}

CUresult GetChildGraph(CUgraphNode handle, CUgraph* out) {
  const Lock lock(state().mutex);
  GraphNode* node = nullptr;
  if (const CUresult error = FindNode(handle, node)) return error;
  const auto* const child = std::get_if<ChildNode>(&node->parameters);
  if (!out || !child) return CUDA_ERROR_INVALID_VALUE;
  *out = child->graph->handle;
  return CUDA_SUCCESS;
}

}  // namespace

bool Reaches(const GraphNode& from, const GraphNode& to) {
  std::set<const GraphNode*> seen;
  std::vector<const GraphNode*> waiting{&to};
  while (!waiting.empty()) {
    const GraphNode* const node = waiting.back();
    waiting.pop_back();
    for (const GraphEdge& edge : node->dependencies) {
      if (edge.from == &from) return true;
      if (seen.insert(edge.from).second) waiting.push_back(edge.from);
    }
  }
  return false;
}

}  // namespace standin

using namespace standin;

ENTRY(cuGraphGetNodes, (CUgraph graph, CUgraphNode* nodes, size_t* count), (graph, nodes, count)) {
  return GetNodes(graph, nodes, count, false);
}

ENTRY(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode* nodes, size_t* count),
      (graph, nodes, count)) {
  return GetNodes(graph, nodes, count, true);
}

ENTRY(cuGraphGetEdges, (CUgraph graph, CUgraphNode* from, CUgraphNode* to, size_t* count),
      (graph, from, to, count)) {
  return GetEdges(graph, from, to, nullptr, count);
}

ENTRY(cuGraphNodeGetDependencies, (CUgraphNode node, CUgraphNode* nodes, size_t* count),
      (node, nodes, count)) {
  return GetDependencies(node, nodes, nullptr, count);
}

ENTRY(cuGraphNodeGetDependentNodes, (CUgraphNode node, CUgraphNode* nodes, size_t* count),
      (node, nodes, count)) {
  return GetDependentNodes(node, nodes, nullptr, count);
}

#if CUDA_VERSION >= 12030
ENTRY(cuGraphGetEdges_v2,
      (CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges, size_t* count),
      (graph, from, to, edges, count)) {
  return GetEdges(graph, from, to, edges, count);
}

ENTRY(cuGraphNodeGetDependencies_v2,
      (CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges, size_t* count),
      (node, nodes, edges, count)) {
  return GetDependencies(node, nodes, edges, count);
}

ENTRY(cuGraphNodeGetDependentNodes_v2,
      (CUgraphNode node, CUgraphNode* nodes, CUgraphEdgeData* edges, size_t* count),
      (node, nodes, edges, count)) {
  return GetDependentNodes(node, nodes, edges, count);
}
#endif

ENTRY(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType* out), (node, out)) {
  return GetType(node, out);
}

ENTRY(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph* out), (node, out)) {
  return GetChildGraph(node, out);
}
