// Graphs and their nodes come and go: cuGraphCreate, cuGraphClone, cuGraphDestroy and their like.
#include "graph.h"

#include "entry_point.h"
#include "graph_memory.h"

namespace standin {
namespace {

// Guarded by state().mutex. Nodes belong to their graphs.
std::unordered_map<CUgraphNode, GraphNode*>& nodes() {
  static auto* const instance = new std::unordered_map<CUgraphNode, GraphNode*>;
  return *instance;
}

void EndNode(GraphNode& node) {
  nodes().erase(node.handle);
  if (auto* child = std::get_if<ChildNode>(&node.parameters)) EndGraph(*child->graph);
  if (auto* allocation = std::get_if<AllocationNode>(&node.parameters)) LetGo(*allocation->block);
  if (auto* conditional = std::get_if<ConditionalNode>(&node.parameters)) {
    for (const auto& body : conditional->bodies) EndGraph(*body);
  }
}

CUresult Destroy(CUgraph handle) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> graph;
  if (const CUresult error = FindGraph(handle, graph)) return error;
  // cuda.h: a capture's graph is not to be destroyed while the capture is in progress, one inside a
  // node is the node's.
  if (graph->captures > 0) return CUDA_ERROR_ILLEGAL_STATE;
  if (graph->owner != GraphOwner::kProgram) return CUDA_ERROR_INVALID_VALUE;
  EndGraph(*graph);
  return CUDA_SUCCESS;
}

CUresult DestroyNode(CUgraphNode handle) {
  const Lock lock(state().mutex);
  GraphNode* node = nullptr;
  if (const CUresult error = FindNode(handle, node)) return error;
  Graph& graph = *node->graph;
  // cuda.h, cuGraphDestroyNode and cuStreamGetCaptureInfo.
  if (HasMemoryNodes(graph) || graph.captures > 0) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& other : graph.nodes) {
    std::erase_if(other->dependencies, [&](const GraphEdge& edge) { return edge.from == node; });
  }
  EndNode(*node);
  std::erase_if(graph.nodes, [&](const auto& each) { return each.get() == node; });
  return CUDA_SUCCESS;
}

CUresult Clone(CUgraph* out, CUgraph handle) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> graph;
  if (const CUresult error = FindGraph(handle, graph)) return error;
  if (!out || HasMemoryNodes(*graph) || HasConditionalNodes(*graph)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = CloneOf(*graph, GraphOwner::kProgram)->handle;
  return CUDA_SUCCESS;
}

CUresult FindInClone(CUgraphNode* out, CUgraphNode original, CUgraph handle) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> clone;
  if (const CUresult error = FindGraph(handle, clone)) return error;
  if (!out || !original) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& node : clone->nodes) {
    if (node->cloned_from != original) continue;
    *out = node->handle;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

template <typename... Types>
bool Has(const Graph& graph) {
  for (const auto& node : graph.nodes) {
    if ((std::holds_alternative<Types>(node->parameters) || ...)) return true;
    const auto* const child = std::get_if<ChildNode>(&node->parameters);
    if (child && Has<Types...>(*child->graph)) return true;
  }
  return false;
}

}  // namespace

CUresult FindGraph(CUgraph handle, std::shared_ptr<Graph>& out) {
  const auto found = state().graphs.find(handle);
  if (found == state().graphs.end()) return CUDA_ERROR_INVALID_VALUE;
  out = found->second;
  return CUDA_SUCCESS;
}

CUresult FindNode(CUgraphNode handle, GraphNode*& out) {
  const auto found = nodes().find(handle);
  if (found == nodes().end()) return CUDA_ERROR_INVALID_VALUE;
  out = found->second;
  return CUDA_SUCCESS;
}

std::shared_ptr<Graph> NewGraph(GraphOwner owner) {
  auto graph = std::make_shared<Graph>();
  graph->handle = NewHandle<CUgraph>();
  graph->owner = owner;
  state().graphs[graph->handle] = graph;
  return graph;
}

void EndGraph(Graph& graph) {
  for (const auto& node : graph.nodes) EndNode(*node);
  for (const auto& condition : graph.conditions) ForgetCondition(*condition);
  const auto found = state().graphs.find(graph.handle);
  if (found == state().graphs.end()) return;
  const std::shared_ptr<Graph> last = std::move(found->second);
  state().graphs.erase(found);
  last->objects = {};
  last->nodes.clear();
}

GraphNode& AppendNode(Graph& graph, NodeParameters parameters, const DependencySet& after) {
  auto added = std::make_unique<GraphNode>();
  added->handle = NewHandle<CUgraphNode>();
  added->graph = &graph;
  added->parameters = std::move(parameters);
  for (std::size_t i = 0; i < after.nodes.size(); ++i) {
    added->dependencies.push_back({nodes().at(after.nodes[i]), after.edges[i]});
  }
  nodes()[added->handle] = added.get();
  return *graph.nodes.emplace_back(std::move(added));
}

std::shared_ptr<Graph> CloneOf(const Graph& graph, GraphOwner owner) {
  std::shared_ptr<Graph> clone = NewGraph(owner);
  clone->objects = graph.objects;
  std::unordered_map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : graph.nodes) {
    NodeParameters parameters = node->parameters;
    if (auto* child = std::get_if<ChildNode>(&parameters)) {
      child->graph = CloneOf(*child->graph, GraphOwner::kChildNode);
    }
    GraphNode& copy = AppendNode(*clone, std::move(parameters), {});
    copy.cloned_from = node->handle;
    copies[node.get()] = &copy;
  }
  for (const auto& node : graph.nodes) {
    for (const GraphEdge& edge : node->dependencies) {
      copies[node.get()]->dependencies.push_back({copies.at(edge.from), edge.data});
    }
  }
  return clone;
}

bool HasMemoryNodes(const Graph& graph) {
  return Has<AllocationNode, FreeNode>(graph);
}

bool HasConditionalNodes(const Graph& graph) {
  return Has<ConditionalNode>(graph);
}

}  // namespace standin

using namespace standin;

ENTRY(cuGraphCreate, (CUgraph * out, unsigned flags), (out, flags)) {
  if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(state().mutex);
  *out = NewGraph(GraphOwner::kProgram)->handle;
  return CUDA_SUCCESS;
}

ENTRY(cuGraphDestroy, (CUgraph graph), (graph)) {
  return Destroy(graph);
}

ENTRY(cuGraphDestroyNode, (CUgraphNode node), (node)) {
  return DestroyNode(node);
}

ENTRY(cuGraphClone, (CUgraph * out, CUgraph graph), (out, graph)) {
  return Clone(out, graph);
}

ENTRY(cuGraphNodeFindInClone, (CUgraphNode * out, CUgraphNode original, CUgraph clone),
      (out, original, clone)) {
  return FindInClone(out, original, clone);
}

ENTRY(cuGraphRetainUserObject,
      (CUgraph handle, CUuserObject object, unsigned count, unsigned flags),
      (handle, object, count, flags)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> graph;
  if (const CUresult error = FindGraph(handle, graph)) return error;
  if ((flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0) return CUDA_ERROR_INVALID_VALUE;
  return graph->objects.Retain(object, count, flags == CU_GRAPH_USER_OBJECT_MOVE);
}

ENTRY(cuGraphReleaseUserObject, (CUgraph handle, CUuserObject object, unsigned count),
      (handle, object, count)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> graph;
  if (const CUresult error = FindGraph(handle, graph)) return error;
  return graph->objects.Release(object, count);
}
