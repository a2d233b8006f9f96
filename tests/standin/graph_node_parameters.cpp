// cuGraph*NodeGetParams and cuGraph*NodeSetParams, in graphs and in executable graphs. A node
// is told in an executable graph by the node from which it was made.
#include "behaviour.h"
#include "entry_point.h"
#include "graph_memory.h"
#include "modules.h"

namespace standin {
namespace {

// Calls `give` with the node and its parameters, if they are of this type.
template <typename Type, typename Give>
CUresult Get(CUgraphNode handle, const void* out, Give give) {
  const Lock lock(state().mutex);
  GraphNode* node = nullptr;
  if (const CUresult error = FindNode(handle, node)) return error;
  auto* const parameters = std::get_if<Type>(&node->parameters);
  if (!out || !parameters) return CUDA_ERROR_INVALID_VALUE;
  give(*parameters, *node);
  return CUDA_SUCCESS;
}

// What a node was is kept where a change does not say it.
void Keep(const NodeParameters& old, NodeParameters& wanted) {
  auto* const kernel = std::get_if<KernelNode>(&wanted);
  if (kernel) kernel->attributes = std::get_if<KernelNode>(&old)->attributes;
}

template <typename Make>
CUresult Set(CUgraphNode handle, Make make) {
  const Lock lock(state().mutex);
  GraphNode* node = nullptr;
  if (const CUresult error = FindNode(handle, node)) return error;
  NodeParameters wanted;
  if (const CUresult error = make(node->parameters, wanted)) return error;
  if (wanted.index() != node->parameters.index()) return CUDA_ERROR_INVALID_VALUE;
  Keep(node->parameters, wanted);
  node->parameters = std::move(wanted);
  return CUDA_SUCCESS;
}

// cuda.h, cuGraphExecMemcpyNodeSetParams and its like: no other memory types, no other context.
bool MayChangeTo(const NodeParameters& old, const NodeParameters& wanted) {
  if (old.index() != wanted.index()) return false;
  if (const auto* kernel = std::get_if<KernelNode>(&wanted)) {
    return kernel->context == std::get_if<KernelNode>(&old)->context;
  }
  if (const auto* set = std::get_if<SetNode>(&wanted)) {
    const auto& before = *std::get_if<SetNode>(&old);
    const bool flat = set->set.height == 1 && before.set.height == 1;
    return set->context == before.context && flat && set->set.elementSize == before.set.elementSize;
  }
  if (const auto* copy = std::get_if<CopyNode>(&wanted)) {
    const auto& before = *std::get_if<CopyNode>(&old);
    const bool flat = copy->copy.Height <= 1 && copy->copy.Depth <= 1 && before.copy.Height <= 1 &&
                      before.copy.Depth <= 1;
    return copy->context == before.context && flat &&
           copy->copy.srcMemoryType == before.copy.srcMemoryType &&
           copy->copy.dstMemoryType == before.copy.dstMemoryType;
  }
  return true;
}

template <typename Make>
CUresult SetExec(CUgraphExec exec_handle, CUgraphNode handle, Make make) {
  const Lock lock(state().mutex);
  GraphExecPtr exec;
  GraphNode* still_there = nullptr;
  if (const CUresult error = FindExec(exec_handle, exec)) return error;
  if (const CUresult error = FindNode(handle, still_there)) return error;
  ExecNode* const node = FindIn(exec->graph, handle);
  if (!node) return CUDA_ERROR_INVALID_VALUE;
  NodeParameters wanted;
  if (const CUresult error = make(*node->parameters, wanted)) return error;
  if (!MayChangeTo(*node->parameters, wanted)) return CUDA_ERROR_INVALID_VALUE;
  Keep(*node->parameters, wanted);
  node->parameters = std::make_shared<const NodeParameters>(std::move(wanted));
  return CUDA_SUCCESS;
}

CUresult FindSwitchable(CUgraphExec exec_handle, CUgraphNode handle, GraphExecPtr& exec,
                        ExecNode*& out) {
  GraphNode* still_there = nullptr;
  if (const CUresult error = FindExec(exec_handle, exec)) return error;
  if (const CUresult error = FindNode(handle, still_there)) return error;
  out = FindIn(exec->graph, handle);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const NodeParameters& parameters = *out->parameters;
  const bool supported = std::holds_alternative<KernelNode>(parameters) ||
                         std::holds_alternative<SetNode>(parameters) ||
                         std::holds_alternative<CopyNode>(parameters);
  return supported ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// cuKernelGetFunction's.
CUfunction FunctionOf(CUkernel kernel) {
  Function* function = nullptr;
  return FindFunction(kernel, function) == CUDA_SUCCESS ? reinterpret_cast<CUfunction>(function)
                                                        : nullptr;
}

template <typename Parameters>
void GiveKernel(KernelNode& kernel, GraphNode& node, Parameters& out) {
  node.argument_pointers.clear();
  for (auto& argument : kernel.launch.arguments) node.argument_pointers.push_back(argument.data());
  const Launch& launch = kernel.launch;
  out = {};
  out.func = kernel.function ? kernel.function : FunctionOf(kernel.library_kernel);
  out.gridDimX = launch.grid[0];
  out.gridDimY = launch.grid[1];
  out.gridDimZ = launch.grid[2];
  out.blockDimX = launch.block[0];
  out.blockDimY = launch.block[1];
  out.blockDimZ = launch.block[2];
  out.sharedMemBytes = kernel.shared_bytes;
  out.kernelParams = node.argument_pointers.empty() ? nullptr : node.argument_pointers.data();
}

// Those that cuda.h has for kernels, but the one that says nothing.
bool IsOfKernels(CUkernelNodeAttrID attribute) {
  return attribute > CU_LAUNCH_ATTRIBUTE_IGNORE && attribute < CU_LAUNCH_ATTRIBUTE_MAX;
}

CUcontext ContextOf(const NodeParameters& parameters) {
  if (const auto* copy = std::get_if<CopyNode>(&parameters)) return copy->context;
  const auto* const set = std::get_if<SetNode>(&parameters);
  return set ? set->context : nullptr;
}

}  // namespace

ExecNode* FindIn(ExecGraph& graph, CUgraphNode source) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const ExecNode& node) { return node.source == source; });
  return found == graph.nodes.end() ? nullptr : &*found;
}

}  // namespace standin

using namespace standin;
using Old = const NodeParameters;

ENTRY(cuGraphKernelNodeGetParams, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* out),
      (node, out)) {
  return Get<KernelNode>(node, out,
                         [&](KernelNode& kernel, GraphNode& of) { GiveKernel(kernel, of, *out); });
}

ENTRY(cuGraphKernelNodeGetParams_v2, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out),
      (node, out)) {
  return Get<KernelNode>(node, out, [&](KernelNode& kernel, GraphNode& of) {
    GiveKernel(kernel, of, *out);
    out->kern = kernel.library_kernel;
    out->ctx = kernel.context;
  });
}

ENTRY(cuGraphKernelNodeSetParams, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* from),
      (node, from)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return Set(node, [&](Old&, NodeParameters& to) { return MakeKernelNode(Widened(*from), to); });
}

ENTRY(cuGraphKernelNodeSetParams_v2, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* from),
      (node, from)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return Set(node, [&](Old&, NodeParameters& to) { return MakeKernelNode(*from, to); });
}

ENTRY(cuGraphExecKernelNodeSetParams,
      (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* from),
      (exec, node, from)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return SetExec(exec, node,
                 [&](Old&, NodeParameters& to) { return MakeKernelNode(Widened(*from), to); });
}

ENTRY(cuGraphExecKernelNodeSetParams_v2,
      (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* from),
      (exec, node, from)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return SetExec(exec, node, [&](Old&, NodeParameters& to) { return MakeKernelNode(*from, to); });
}

ENTRY(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D* out), (node, out)) {
  return Get<CopyNode>(node, out, [&](CopyNode& copy, GraphNode&) { *out = copy.copy; });
}

ENTRY(cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CUDA_MEMCPY3D* from), (node, from)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return Set(node,
             [&](Old& old, NodeParameters& to) { return MakeCopyNode(*from, ContextOf(old), to); });
}

ENTRY(cuGraphExecMemcpyNodeSetParams,
      (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D* from, CUcontext context),
      (exec, node, from, context)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return SetExec(exec, node,
                 [&](Old&, NodeParameters& to) { return MakeCopyNode(*from, context, to); });
}

ENTRY(cuGraphMemsetNodeGetParams, (CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out), (node, out)) {
  return Get<SetNode>(node, out, [&](SetNode& set, GraphNode&) { *out = set.set; });
}

ENTRY(cuGraphMemsetNodeSetParams, (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* from),
      (node, from)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return Set(node,
             [&](Old& old, NodeParameters& to) { return MakeSetNode(*from, ContextOf(old), to); });
}

ENTRY(cuGraphExecMemsetNodeSetParams,
      (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* from, CUcontext context),
      (exec, node, from, context)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return SetExec(exec, node,
                 [&](Old&, NodeParameters& to) { return MakeSetNode(*from, context, to); });
}

ENTRY(cuGraphHostNodeGetParams, (CUgraphNode node, CUDA_HOST_NODE_PARAMS* out), (node, out)) {
  return Get<HostNode>(node, out, [&](HostNode& host, GraphNode&) {
    *out = {host.function, host.data};
  });
}

ENTRY(cuGraphHostNodeSetParams, (CUgraphNode node, const CUDA_HOST_NODE_PARAMS* from),
      (node, from)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return Set(node, [&](Old&, NodeParameters& to) { return MakeHostNode(*from, to); });
}

ENTRY(cuGraphExecHostNodeSetParams,
      (CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* from), (exec, node, from)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return SetExec(exec, node, [&](Old&, NodeParameters& to) { return MakeHostNode(*from, to); });
}

#define EVENT_NODE(name, Type, type)                                                            \
  ENTRY(cuGraph##name##NodeGetEvent, (CUgraphNode node, CUevent * out), (node, out)) {          \
    return Get<Type>(node, out, [&](Type& event, GraphNode&) { *out = event.event; });          \
  }                                                                                             \
  ENTRY(cuGraph##name##NodeSetEvent, (CUgraphNode node, CUevent event), (node, event)) {        \
    return Set(node, [&](Old&, NodeParameters& to) { return MakeEventNode(type, event, to); }); \
  }                                                                                             \
  ENTRY(cuGraphExec##name##NodeSetEvent, (CUgraphExec exec, CUgraphNode node, CUevent event),   \
        (exec, node, event)) {                                                                  \
    return SetExec(exec, node,                                                                  \
                   [&](Old&, NodeParameters& to) { return MakeEventNode(type, event, to); });   \
  }

EVENT_NODE(EventRecord, RecordNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
EVENT_NODE(EventWait, WaitNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT)

ENTRY(cuGraphMemAllocNodeGetParams, (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* out),
      (node, out)) {
  return Get<AllocationNode>(node, out, [&](AllocationNode& allocation, GraphNode&) {
    *out = allocation.parameters;
    out->accessDescs = allocation.access.empty() ? nullptr : allocation.access.data();
  });
}

ENTRY(cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr* out), (node, out)) {
  return Get<FreeNode>(node, out, [&](FreeNode& free, GraphNode&) { *out = free.block->base; });
}

#if CUDA_VERSION >= 12020
ENTRY(cuGraphNodeSetParams, (CUgraphNode node, CUgraphNodeParams* from), (node, from)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return Set(node, [&](Old&, NodeParameters& to) { return MakeNode(*from, to); });
}

ENTRY(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* from),
      (exec, node, from)) {
  if (!from) return CUDA_ERROR_INVALID_VALUE;
  return SetExec(exec, node, [&](Old&, NodeParameters& to) { return MakeNode(*from, to); });
}
#endif

ENTRY(cuGraphNodeSetEnabled, (CUgraphExec handle, CUgraphNode node, unsigned enabled),
      (handle, node, enabled)) {
  const Lock lock(state().mutex);
  GraphExecPtr exec;
  ExecNode* found = nullptr;
  if (const CUresult error = FindSwitchable(handle, node, exec, found)) return error;
  found->enabled = enabled != 0;
  return CUDA_SUCCESS;
}

ENTRY(cuGraphNodeGetEnabled, (CUgraphExec handle, CUgraphNode node, unsigned* out),
      (handle, node, out)) {
  const Lock lock(state().mutex);
  GraphExecPtr exec;
  ExecNode* found = nullptr;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = FindSwitchable(handle, node, exec, found)) return error;
  *out = found->enabled ? 1 : 0;
  return CUDA_SUCCESS;
}

ENTRY(cuGraphKernelNodeGetAttribute,
      (CUgraphNode node, CUkernelNodeAttrID attribute, CUkernelNodeAttrValue* out),
      (node, attribute, out)) {
  if (!IsOfKernels(attribute)) return CUDA_ERROR_INVALID_VALUE;
  return Get<KernelNode>(node, out, [&](KernelNode& kernel, GraphNode&) {
    const auto found = kernel.attributes.find(attribute);
    *out = found == kernel.attributes.end() ? CUkernelNodeAttrValue{} : found->second;
  });
}

ENTRY(cuGraphKernelNodeSetAttribute,
      (CUgraphNode node, CUkernelNodeAttrID attribute, const CUkernelNodeAttrValue* value),
      (node, attribute, value)) {
  if (!IsOfKernels(attribute)) return CUDA_ERROR_INVALID_VALUE;
  return Get<KernelNode>(
      node, value, [&](KernelNode& kernel, GraphNode&) { kernel.attributes[attribute] = *value; });
}

ENTRY(cuGraphKernelNodeCopyAttributes, (CUgraphNode to_handle, CUgraphNode from_handle),
      (to_handle, from_handle)) {
  const Lock lock(state().mutex);
  GraphNode* to = nullptr;
  GraphNode* from = nullptr;
  if (const CUresult error = FindNode(to_handle, to)) return error;
  if (const CUresult error = FindNode(from_handle, from)) return error;
  auto* const target = std::get_if<KernelNode>(&to->parameters);
  const auto* const source = std::get_if<KernelNode>(&from->parameters);
  if (!target || !source || target->context != source->context) return CUDA_ERROR_INVALID_VALUE;
  target->attributes = source->attributes;
  return CUDA_SUCCESS;
}
