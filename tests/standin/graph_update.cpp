// cuGraphExecUpdate: an executable graph takes over the parameters of a graph of the same shape.
// Nodes are paired in the order in which they were added.
#include "entry_point.h"
#include "graph_memory.h"

namespace standin {
namespace {

struct Mismatch {
  CUgraphExecUpdateResult result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
  CUgraphNode node = nullptr;
  CUgraphNode from = nullptr;
};

bool Fail(Mismatch& out, CUgraphExecUpdateResult result, CUgraphNode node,
          CUgraphNode from = nullptr) {
  out = {result, node, from};
  return false;
}

// cuda.h, cuGraphExecUpdate: what may not change.
bool SameEnough(const NodeParameters& old, const NodeParameters& wanted,
                CUgraphExecUpdateResult& why) {
  why = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  if (const auto* copy = std::get_if<CopyNode>(&wanted)) {
    const auto& before = *std::get_if<CopyNode>(&old);
    return copy->copy.srcMemoryType == before.copy.srcMemoryType &&
           copy->copy.dstMemoryType == before.copy.dstMemoryType && copy->context == before.context;
  }
  if (const auto* set = std::get_if<SetNode>(&wanted)) {
    const auto& before = *std::get_if<SetNode>(&old);
    const bool flat = set->set.height == 1 && before.set.height == 1;
    const bool same_shape =
        set->set.width == before.set.width && set->set.height == before.set.height &&
        set->set.elementSize == before.set.elementSize && set->set.pitch == before.set.pitch;
    return set->context == before.context && (flat || same_shape);
  }
  if (const auto* kernel = std::get_if<KernelNode>(&wanted)) {
    why = CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    return kernel->context == std::get_if<KernelNode>(&old)->context;
  }
  if (const auto* allocation = std::get_if<AllocationNode>(&wanted)) {
    const GraphBlock& before = *std::get_if<AllocationNode>(&old)->block;
    return allocation->block->bytes == before.bytes && allocation->block->device == before.device;
  }
  if (const auto* conditional = std::get_if<ConditionalNode>(&wanted)) {
    const auto& before = *std::get_if<ConditionalNode>(&old);
    return conditional->type == before.type && conditional->bodies.size() == before.bodies.size();
  }
  return true;
}

bool Matches(const ExecGraph& old, const ExecGraph& wanted, Mismatch& out) {
  constexpr auto kTopology = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (old.nodes.size() != wanted.nodes.size()) return Fail(out, kTopology, nullptr);
  for (std::size_t i = 0; i < old.nodes.size(); ++i) {
    const ExecNode& before = old.nodes[i];
    const ExecNode& after = wanted.nodes[i];
    if (before.dependencies.size() != after.dependencies.size()) {
      return Fail(out, kTopology, after.source);
    }
    for (std::size_t j = 0; j < after.dependencies.size(); ++j) {
      if (before.dependencies[j] != after.dependencies[j]) {
        return Fail(out, kTopology, after.source, wanted.nodes[after.dependencies[j]].source);
      }
    }
    if (before.parameters->index() != after.parameters->index()) {
      return Fail(out, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, after.source);
    }
    CUgraphExecUpdateResult why{};
    if (!SameEnough(*before.parameters, *after.parameters, why)) {
      return Fail(out, why, after.source);
    }
    for (std::size_t j = 0; j < after.inner.size(); ++j) {
      if (!Matches(before.inner[j], after.inner[j], out)) return false;
    }
  }
  return true;
}

// The nodes keep the names of those from which the executable graph was made, and whether they are
// enabled.
void TakeOver(ExecGraph& old, ExecGraph& wanted) {
  for (std::size_t i = 0; i < old.nodes.size(); ++i) {
    old.nodes[i].parameters = std::move(wanted.nodes[i].parameters);
    for (std::size_t j = 0; j < old.nodes[i].inner.size(); ++j) {
      TakeOver(old.nodes[i].inner[j], wanted.nodes[i].inner[j]);
    }
  }
}

CUresult Update(CUgraphExec exec_handle, CUgraph graph_handle, Mismatch& out) {
  const Lock lock(state().mutex);
  out = {CU_GRAPH_EXEC_UPDATE_ERROR};
  GraphExecPtr exec;
  std::shared_ptr<Graph> graph;
  if (const CUresult error = FindExec(exec_handle, exec)) return error;
  if (const CUresult error = FindGraph(graph_handle, graph)) return error;
  if (graph->owner == GraphOwner::kMoved) return CUDA_ERROR_INVALID_VALUE;
  ExecGraph wanted;
  CUgraphNode offender = nullptr;
  if (!Compile(*graph, wanted, offender)) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  // A graph with memory or conditional nodes belongs to one executable graph.
  const auto source = exec->source.lock();
  const bool only_one = HasMemoryNodes(*graph) || HasConditionalNodes(*graph);
  if (only_one && source != graph && graph->execs > 0) {
    out = {CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED};
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  Mismatch mismatch;
  if (!Matches(exec->graph, wanted, mismatch)) {
    out = mismatch;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  if (only_one && source != graph) {
    if (source) --source->execs;
    ++graph->execs;
    exec->source = graph;
    exec->conditions = graph->conditions;
  }
  HoldBlocks(wanted);
  LetGoOfBlocks(exec->graph);
  TakeOver(exec->graph, wanted);
  exec->objects = ObjectsOf(*graph);
  out = {};
  return CUDA_SUCCESS;
}

CUresult SetChild(CUgraphExec exec_handle, CUgraphNode node_handle, CUgraph child_handle) {
  const Lock lock(state().mutex);
  GraphExecPtr exec;
  std::shared_ptr<Graph> child;
  if (const CUresult error = FindExec(exec_handle, exec)) return error;
  if (const CUresult error = FindGraph(child_handle, child)) return error;
  ExecNode* const node = FindIn(exec->graph, node_handle);
  if (!node || !std::holds_alternative<ChildNode>(*node->parameters) || HasMemoryNodes(*child)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ExecGraph wanted;
  CUgraphNode offender = nullptr;
  Mismatch mismatch;
  if (!Compile(*child, wanted, offender) || !Matches(node->inner.front(), wanted, mismatch)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  TakeOver(node->inner.front(), wanted);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuGraphExecUpdate,
      (CUgraphExec exec, CUgraph graph, CUgraphNode* node, CUgraphExecUpdateResult* out),
      (exec, graph, node, out)) {
  Mismatch mismatch;
  const CUresult result = Update(exec, graph, mismatch);
  if (node) *node = mismatch.node;
  if (out) *out = mismatch.result;
  return result;
}

ENTRY(cuGraphExecUpdate_v2,
      (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* information),
      (exec, graph, information)) {
  if (!information) return CUDA_ERROR_INVALID_VALUE;
  Mismatch mismatch;
  const CUresult result = Update(exec, graph, mismatch);
  *information = {mismatch.result, mismatch.node, mismatch.from};
  return result;
}

ENTRY(cuGraphExecChildGraphNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraph child),
      (exec, node, child)) {
  return SetChild(exec, node, child);
}
