// Conditional handles and nodes: IF, WHILE and SWITCH. A kernel sets the value (kernels.cpp).
#include "behaviour.h"
#include "entry_point.h"
#include "graph.h"

namespace standin {
namespace {

// Guarded by state().mutex.
std::map<std::uint64_t, std::weak_ptr<Condition>>& conditions() {
  static auto* const instance = new std::map<std::uint64_t, std::weak_ptr<Condition>>;
  return *instance;
}

}  // namespace

void SetCondition(std::uint64_t handle, unsigned value) {
  const Lock lock(state().mutex);
  const auto found = conditions().find(handle);
  if (found == conditions().end()) return;
  if (const auto condition = found->second.lock()) {
    condition->value = value;
    ++condition->sets;
  }
}

void ForgetCondition(const Condition& condition) {
  // An executable graph of the graph may still run: its kernels set the value by the handle.
  std::erase_if(conditions(), [](const auto& entry) { return entry.second.expired(); });
  const auto found = conditions().find(condition.handle);
  if (found != conditions().end() && found->second.use_count() <= 1) conditions().erase(found);
}

#if CUDA_VERSION >= 12030
namespace {

CUresult Create(CUgraphConditionalHandle* out, CUgraph handle, CUcontext context_handle,
                unsigned default_value, unsigned flags) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> graph;
  Context* context = nullptr;
  if (const CUresult error = FindGraph(handle, graph)) return error;
  if (!out || (flags & ~unsigned{CU_GRAPH_COND_ASSIGN_DEFAULT}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!context_handle) return Behaviour("any.no_context");  // not the current one
  if (const CUresult error = FindContext(context_handle, context)) return error;
  static std::uint64_t last = 0x3c0000000000;
  const auto condition = std::make_shared<Condition>();
  condition->handle = ++last;
  condition->context = context->handle;
  condition->default_value = default_value;
  condition->assigned_at_launch = flags == CU_GRAPH_COND_ASSIGN_DEFAULT;
  graph->conditions.push_back(condition);
  conditions()[condition->handle] = condition;
  *out = condition->handle;
  return CUDA_SUCCESS;
}

// Of the graph, or of the one that the graph is inside of.
bool HasHandle(const Graph& graph, const Graph& root) {
  if (&graph == &root) return true;
  for (const auto& node : root.nodes) {
    if (const auto* child = std::get_if<ChildNode>(&node->parameters)) {
      if (HasHandle(graph, *child->graph)) return true;
    } else if (const auto* conditional = std::get_if<ConditionalNode>(&node->parameters)) {
      for (const auto& body : conditional->bodies) {
        if (HasHandle(graph, *body)) return true;
      }
    }
  }
  return false;
}

std::shared_ptr<Condition> FindCondition(std::uint64_t handle, const Graph& graph) {
  for (const auto& [owner_handle, owner] : state().graphs) {
    for (const auto& condition : owner->conditions) {
      if (condition->handle == handle && HasHandle(graph, *owner)) return condition;
    }
  }
  return nullptr;
}

// How many bodies a node may have: cuda.h, CUDA_CONDITIONAL_NODE_PARAMS.
bool MayHave(unsigned bodies, ConditionType type) {
  if (type == ConditionType::kWhile) return bodies == 1;
  if (type == ConditionType::kIf) return bodies == 1 || bodies == 2;
  return bodies > 0;
}

}  // namespace

CUresult MakeConditionalNode(const Graph& graph, CUDA_CONDITIONAL_NODE_PARAMS& parameters,
                             NodeParameters& out) {
  const auto type = static_cast<ConditionType>(parameters.type);
  const std::shared_ptr<Condition> condition = FindCondition(parameters.handle, graph);
  if (!condition || condition->has_node || type > ConditionType::kSwitch ||
      !MayHave(parameters.size, type)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* context = nullptr;
  if (const CUresult error = ContextOrCurrent(parameters.ctx, context)) return error;
  if (context->handle != condition->context) return CUDA_ERROR_INVALID_VALUE;
  ConditionalNode node{condition, type, {}, std::make_shared<std::vector<CUgraph>>()};
  for (unsigned i = 0; i < parameters.size; ++i) {
    node.bodies.push_back(NewGraph(GraphOwner::kConditional));
    node.handles->push_back(node.bodies.back()->handle);
  }
  condition->has_node = true;
  parameters.phGraph_out = node.handles->data();
  out = std::move(node);
  return CUDA_SUCCESS;
}
#endif

}  // namespace standin

using namespace standin;

#if CUDA_VERSION >= 12030
ENTRY(cuGraphConditionalHandleCreate,
      (CUgraphConditionalHandle * out, CUgraph graph, CUcontext context, unsigned default_value,
       unsigned flags),
      (out, graph, context, default_value, flags)) {
  return Create(out, graph, context, default_value, flags);
}
#endif
