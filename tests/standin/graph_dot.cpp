// cuGraphDebugDotPrint: a graph in the language of Graphviz.
#include <fstream>

#include "entry_point.h"
#include "graph_memory.h"

namespace standin {
namespace {

const char* NameOf(CUgraphNodeType type) {
  constexpr const char* kNames[] = {
      "KERNEL",       "MEMCPY",       "MEMSET",           "HOST",           "GRAPH",     "EMPTY",
      "WAIT_EVENT",   "EVENT_RECORD", "EXT_SEMAS_SIGNAL", "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE",
      "BATCH_MEM_OP", "CONDITIONAL"};
  return kNames[static_cast<std::size_t>(type)];
}

void WriteNodes(const Graph& graph, unsigned flags, std::ostream& out);

void WriteInner(const Graph& graph, unsigned flags, std::ostream& out) {
  out << "subgraph \"cluster_" << graph.handle << "\" {\n";
  WriteNodes(graph, flags, out);
  out << "}\n";
}

void WriteNodes(const Graph& graph, unsigned flags, std::ostream& out) {
  constexpr unsigned kWithHandles =
      CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE;
  std::size_t index = 0;
  for (const auto& node : graph.nodes) {
    out << "\"" << node->handle << "\" [label=\"" << index++ << "\\n"
        << NameOf(TypeOf(node->parameters));
    const auto* const kernel = std::get_if<KernelNode>(&node->parameters);
    if (kernel && kernel->kernel) out << "\\n" << kernel->kernel->name;
    if (flags & kWithHandles) out << "\\n" << node->handle;
    out << "\"];\n";
    if (const auto* child = std::get_if<ChildNode>(&node->parameters)) {
      WriteInner(*child->graph, flags, out);
    } else if (const auto* conditional = std::get_if<ConditionalNode>(&node->parameters)) {
      for (const auto& body : conditional->bodies) WriteInner(*body, flags, out);
    }
  }
  for (const auto& node : graph.nodes) {
    for (const GraphEdge& edge : node->dependencies) {
      out << "\"" << edge.from->handle << "\" -> \"" << node->handle << "\";\n";
    }
  }
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuGraphDebugDotPrint, (CUgraph handle, const char* path, unsigned flags),
      (handle, path, flags)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> graph;
  if (const CUresult error = FindGraph(handle, graph)) return error;
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::ofstream out(path);
  out << "digraph dot {\n";
  WriteNodes(*graph, flags, out);
  out << "}\n";
  out.close();
  return out ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
