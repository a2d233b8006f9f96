// cuGraphInstantiate*: an executable graph is a copy of what a graph's nodes do, in an order in
// which it may be done. And cuGraphExecDestroy.
#include <algorithm>
#include <cstring>

#include "entry_point.h"
#include "graph_memory.h"

namespace standin {
namespace {

constexpr cuuint64_t kAutoFree = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
constexpr cuuint64_t kUpload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
constexpr cuuint64_t kDeviceLaunch = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
constexpr cuuint64_t kNodePriority = CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

std::size_t CountOfInner(const NodeParameters& parameters) {
  if (std::holds_alternative<ChildNode>(parameters)) return 1;
  const auto* const conditional = std::get_if<ConditionalNode>(&parameters);
  return conditional ? conditional->bodies.size() : 0;
}

const Graph& InnerOf(const NodeParameters& parameters, std::size_t index) {
  if (const auto* child = std::get_if<ChildNode>(&parameters)) return *child->graph;
  return *std::get_if<ConditionalNode>(&parameters)->bodies[index];
}

// An allocation must come before its free in the same graph.
bool MemoryIsInOrder(const Graph& graph, CUgraphNode& offender) {
  for (const auto& node : graph.nodes) {
    const auto* const free = std::get_if<FreeNode>(&node->parameters);
    if (!free) continue;
    for (const auto& other : graph.nodes) {
      const auto* const allocation = std::get_if<AllocationNode>(&other->parameters);
      if (!allocation || allocation->block != free->block || Reaches(*other, *node)) continue;
      offender = node->handle;
      return false;
    }
  }
  for (const auto& node : graph.nodes) {
    const auto* const child = std::get_if<ChildNode>(&node->parameters);
    if (child && !MemoryIsInOrder(*child->graph, offender)) return false;
  }
  return true;
}

// cuda.h, cuGraphInstantiate: what a graph that the device launches may hold. `work` is set where
// there is a node that does something.
bool MayLaunchFromDevice(const ExecGraph& graph, bool& work, CUgraphNode& offender) {
  for (const ExecNode& node : graph.nodes) {
    const NodeParameters& parameters = *node.parameters;
    const bool child = std::holds_alternative<ChildNode>(parameters);
    const bool does = std::holds_alternative<KernelNode>(parameters) ||
                      std::holds_alternative<CopyNode>(parameters) ||
                      std::holds_alternative<SetNode>(parameters);
    offender = node.source;
    if (!child && !does) return false;
    if (child && !MayLaunchFromDevice(node.inner.front(), work, offender)) return false;
    work = work || does;
  }
  offender = nullptr;
  return true;
}

// Calls `visit` with the graph and all that are inside it.
template <typename Visit>
void ForEachGraph(const Graph& graph, Visit visit) {
  visit(graph);
  for (const auto& node : graph.nodes) {
    for (std::size_t i = 0; i < CountOfInner(node->parameters); ++i) {
      ForEachGraph(InnerOf(node->parameters, i), visit);
    }
  }
}

CUresult Refuse(InstantiateAnswer& answer, CUgraphInstantiateResult result,
                CUgraphNode node = nullptr) {
  answer = {result, node};
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult Make(const Graph& graph, cuuint64_t flags, InstantiateAnswer& answer, GraphExec& exec) {
  CUgraphNode offender = nullptr;
  if (!Compile(graph, exec.graph, offender) || !MemoryIsInOrder(graph, offender)) {
    return Refuse(answer, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, offender);
  }
  bool work = false;
  if ((flags & kDeviceLaunch) && (!MayLaunchFromDevice(exec.graph, work, offender) || !work)) {
    return Refuse(answer, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, offender);
  }
  ForEachGraph(graph, [&](const Graph& each) {
    exec.conditions.insert(exec.conditions.end(), each.conditions.begin(), each.conditions.end());
  });
  for (const auto& condition : exec.conditions) {
#if CUDA_VERSION >= 12080
    constexpr auto kUnused = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
#else
    constexpr auto kUnused = CUDA_GRAPH_INSTANTIATE_ERROR;
#endif
    if (!condition->has_node) return Refuse(answer, kUnused);
  }
  exec.flags = flags & ~kUpload;
  exec.objects = ObjectsOf(graph);
  return CUDA_SUCCESS;
}

CUresult Instantiate(CUgraphExec* out, CUgraph handle, cuuint64_t flags, CUstream upload_stream,
                     InstantiateAnswer& answer) {
  const Lock lock(state().mutex);
  answer = {CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
  std::shared_ptr<Graph> graph;
  if (const CUresult error = FindGraph(handle, graph)) return error;
  const bool both = (flags & kAutoFree) && (flags & kDeviceLaunch);
  const bool known = (flags & ~(kAutoFree | kUpload | kDeviceLaunch | kNodePriority)) == 0;
  const bool inside =
      graph->owner == GraphOwner::kMoved || graph->owner == GraphOwner::kConditional;
  if (!out || !known || both || inside) return CUDA_ERROR_INVALID_VALUE;
  const bool only_one = HasMemoryNodes(*graph) || HasConditionalNodes(*graph);
  if (only_one && graph->execs > 0) return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<GraphExec>();
  if (const CUresult error = Make(*graph, flags, answer, *exec)) return error;
  if (flags & kUpload) {
    if (const CUresult error = UploadGraph(*exec, upload_stream)) return error;
  }
  exec->source = graph;
  ++graph->execs;
  HoldBlocks(exec->graph);
  *out = NewHandle<CUgraphExec>();
  state().graph_execs[*out] = std::move(exec);
  answer = {};
  return CUDA_SUCCESS;
}

// Work that was launched goes on, with what it needs.
CUresult Destroy(CUgraphExec handle) {
  const Lock lock(state().mutex);
  const auto found = state().graph_execs.find(handle);
  if (found == state().graph_execs.end()) return CUDA_ERROR_INVALID_VALUE;
  const GraphExecPtr exec = found->second;
  state().graph_execs.erase(found);
  if (const auto graph = exec->source.lock()) --graph->execs;
  LetGoOfBlocks(exec->graph);
  return CUDA_SUCCESS;
}

// The forms of before 11.4, which tell of errors in two ways.
CUresult InstantiateWithLog(CUgraphExec* out, CUgraph graph, CUgraphNode* node, char* log,
                            std::size_t log_bytes) {
  InstantiateAnswer answer;
  const CUresult result = Instantiate(out, graph, 0, nullptr, answer);
  if (node) *node = answer.node;
  const char* const text = result == CUDA_SUCCESS ? ""
                           : answer.node          ? "a node stands in a cycle"
                                                  : "the graph cannot be instantiated";
  if (log && log_bytes > 0) {
    const std::size_t length = std::min(std::strlen(text), log_bytes - 1);
    std::memcpy(log, text, length);
    log[length] = 0;
  }
  return result;
}

CUresult InstantiateWithFlags(CUgraphExec* out, CUgraph graph, cuuint64_t flags) {
  if (flags & kUpload) return CUDA_ERROR_INVALID_VALUE;  // only cuGraphInstantiateWithParams has it
  InstantiateAnswer ignored;
  return Instantiate(out, graph, flags, nullptr, ignored);
}

}  // namespace

std::shared_ptr<const UserReferences> ObjectsOf(const Graph& graph) {
  const auto objects = std::make_shared<UserReferences>();
  ForEachGraph(graph, [&](const Graph& each) { objects->Retain(each.objects); });
  return objects;
}

CUresult FindExec(CUgraphExec handle, GraphExecPtr& out) {
  const auto found = state().graph_execs.find(handle);
  if (found == state().graph_execs.end()) return CUDA_ERROR_INVALID_VALUE;
  out = found->second;
  return CUDA_SUCCESS;
}

bool Compile(const Graph& graph, ExecGraph& out, CUgraphNode& offender) {
  std::unordered_map<const GraphNode*, std::size_t> indexes;
  for (const auto& node : graph.nodes) indexes.emplace(node.get(), indexes.size());
  std::vector<std::size_t> waits_for;
  std::vector<std::vector<std::size_t>> dependents(graph.nodes.size());
  for (const auto& node : graph.nodes) {
    ExecNode made{.source = node->handle,
                  .parameters = std::make_shared<const NodeParameters>(node->parameters),
                  .dependencies = {},
                  .inner = {}};
    for (const GraphEdge& edge : node->dependencies) {
      made.dependencies.push_back(indexes.at(edge.from));
      dependents[indexes.at(edge.from)].push_back(out.nodes.size());
    }
    for (std::size_t i = 0; i < CountOfInner(node->parameters); ++i) {
      if (!Compile(InnerOf(node->parameters, i), made.inner.emplace_back(), offender)) return false;
    }
    waits_for.push_back(made.dependencies.size());
    out.nodes.push_back(std::move(made));
  }
  std::set<std::size_t> ready;  // as far as edges allow, nodes run in the order of their creation
  for (std::size_t i = 0; i < waits_for.size(); ++i) {
    if (waits_for[i] == 0) ready.insert(i);
  }
  while (!ready.empty()) {
    const std::size_t next = *ready.begin();
    ready.erase(ready.begin());
    out.order.push_back(next);
    for (const std::size_t dependent : dependents[next]) {
      if (--waits_for[dependent] == 0) ready.insert(dependent);
    }
  }
  if (out.order.size() == out.nodes.size()) return true;
  const auto stuck =
      std::find_if(waits_for.begin(), waits_for.end(), [](std::size_t count) { return count > 0; });
  offender = out.nodes[static_cast<std::size_t>(stuck - waits_for.begin())].source;
  return false;
}

}  // namespace standin

using namespace standin;

ENTRY(cuGraphInstantiate,
      (CUgraphExec * out, CUgraph graph, CUgraphNode* node, char* log, size_t log_bytes),
      (out, graph, node, log, log_bytes)) {
  return InstantiateWithLog(out, graph, node, log, log_bytes);
}

ENTRY(cuGraphInstantiate_v2,
      (CUgraphExec * out, CUgraph graph, CUgraphNode* node, char* log, size_t log_bytes),
      (out, graph, node, log, log_bytes)) {
  return InstantiateWithLog(out, graph, node, log, log_bytes);
}

ENTRY(cuGraphInstantiateWithFlags, (CUgraphExec * out, CUgraph graph, unsigned long long flags),
      (out, graph, flags)) {
  return InstantiateWithFlags(out, graph, flags);
}

STREAM_ENTRY(cuGraphInstantiateWithParams, _ptsz,
             (CUgraphExec * out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters),
             (out, graph, parameters)) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  InstantiateAnswer answer;
  const CUresult result =
      Instantiate(out, graph, parameters->flags, parameters->hUploadStream, answer);
  parameters->result_out = answer.result;
  parameters->hErrNode_out = answer.node;
  return result;
}

ENTRY(cuGraphExecDestroy, (CUgraphExec exec), (exec)) {
  return Destroy(exec);
}

ENTRY(cuGraphExecGetFlags, (CUgraphExec handle, cuuint64_t* out), (handle, out)) {
  const Lock lock(state().mutex);
  GraphExecPtr exec;
  if (const CUresult error = FindExec(handle, exec)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = exec->flags;
  return CUDA_SUCCESS;
}
