// cuGraphAdd*Node: nodes added by hand, and the memory nodes that a capture adds.
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "graph_memory.h"
#include "pools.h"

namespace standin {
namespace {

// Where a new node goes.
struct Place {
  CUgraph graph;
  const CUgraphNode* dependencies;
  std::size_t count;
  const void* edge_data = nullptr;
};

// cuda.h, CUDA_CONDITIONAL_NODE_PARAMS: what the body of a conditional node may hold.
bool IsForBodies(const NodeParameters& parameters) {
  return std::holds_alternative<KernelNode>(parameters) ||
         std::holds_alternative<EmptyNode>(parameters) ||
         std::holds_alternative<ChildNode>(parameters) ||
         std::holds_alternative<SetNode>(parameters) ||
         std::holds_alternative<CopyNode>(parameters) ||
         std::holds_alternative<ConditionalNode>(parameters);
}

// Adds what `make`, called with the graph and the node's parameters, makes of them.
template <typename Make>
CUresult Add(CUgraphNode* out, const Place& place, Make make) {
  const Lock lock(state().mutex);
  std::shared_ptr<Graph> graph;
  DependencySet after;
  if (const CUresult error = FindGraph(place.graph, graph)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error =
          ReadDependencies(*graph, place.dependencies, place.edge_data, place.count, after)) {
    return error;
  }
  NodeParameters parameters;
  if (const CUresult error = make(*graph, parameters)) return error;
  const bool is_kernel = std::holds_alternative<KernelNode>(parameters);
  const bool annotated = std::any_of(after.edges.begin(), after.edges.end(),
                                     [](const EdgeData& edge) { return edge != EdgeData{}; });
  if (annotated && !is_kernel) return CUDA_ERROR_INVALID_VALUE;
  if (graph->owner == GraphOwner::kConditional && !IsForBodies(parameters)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = AppendNode(*graph, std::move(parameters), after).handle;
  return CUDA_SUCCESS;
}

// cuda.h, cuGraphChildGraphNodeGetGraph and CUgraphChildGraphNodeOwnership: memory nodes are not
// added to a graph inside another.
CUresult CheckTakesMemoryNodes(const Graph& graph) {
  const bool takes = graph.owner == GraphOwner::kProgram || graph.owner == GraphOwner::kCapture;
  return takes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

Kind KindOf(const PoolPlace& place) {
  if (place.type != CU_MEM_ALLOCATION_TYPE_PINNED) return Kind::kGraphManaged;
  return place.location_type == CU_MEM_LOCATION_TYPE_DEVICE ? Kind::kGraph : Kind::kGraphHost;
}

CUresult MakeAllocation(Graph& graph, CUDA_MEM_ALLOC_NODE_PARAMS& parameters, NodeParameters& out) {
  const CUmemPoolProps& pool = parameters.poolProps;
  if (pool.handleTypes != CU_MEM_HANDLE_TYPE_NONE || parameters.bytesize == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult error = CheckTakesMemoryNodes(graph)) return error;
  PoolPlace place;
  if (const CUresult error = PlaceOf(pool.location, pool.allocType, place)) return error;
  if (parameters.accessDescCount > state().devices.size() ||
      (parameters.accessDescCount > 0 && !parameters.accessDescs)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Context* current = nullptr;
  if (const CUresult error = CurrentContext(current)) return error;
  // The memory is of the device that is named, whichever context is current.
  Context owner{};
  owner.handle = current->handle;
  owner.id = current->id;
  owner.device = place.device < 0 ? current->device : place.device;
  owner.primary_of_green = current->primary_of_green;
  AllocationNode node{.parameters = parameters, .access = {}, .block = nullptr};
  if (parameters.accessDescCount > 0) {
    node.access.assign(parameters.accessDescs, parameters.accessDescs + parameters.accessDescCount);
  }
  if (const CUresult error =
          NewGraphBlock(owner, KindOf(place), parameters.bytesize, graph.handle, node.block)) {
    return error;
  }
  parameters.dptr = node.block->base;
  node.parameters.dptr = node.block->base;
  out = NodeParameters(std::move(node));
  return CUDA_SUCCESS;
}

CUresult MakeFree(const Graph& graph, CUdeviceptr address, NodeParameters& out) {
  const std::shared_ptr<GraphBlock> block = FindGraphBlock(address);
  if (!block) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckTakesMemoryNodes(graph)) return error;
  if (const CUresult error = AddFreeOf(*block, graph)) return error;
  out = NodeParameters(FreeNode{block});
  return CUDA_SUCCESS;
}

CUresult MakeChild(const Graph& graph, CUgraph handle, bool moved, NodeParameters& out) {
  std::shared_ptr<Graph> child;
  if (const CUresult error = FindGraph(handle, child)) return error;
  if (child.get() == &graph || HasConditionalNodes(*child)) return CUDA_ERROR_INVALID_VALUE;
  if (!moved) {
    if (HasMemoryNodes(*child)) return CUDA_ERROR_INVALID_VALUE;
    out = NodeParameters(ChildNode{CloneOf(*child, GraphOwner::kChildNode)});
    return CUDA_SUCCESS;
  }
  if (child->owner != GraphOwner::kProgram || child->captures > 0 || child->execs > 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (HasMemoryNodes(*child)) {
    if (const CUresult error = CheckTakesMemoryNodes(graph)) return error;
  }
  child->owner = GraphOwner::kMoved;
  out = NodeParameters(ChildNode{child});
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12020
CUresult MakeAny(Graph& graph, CUgraphNodeParams& from, NodeParameters& out) {
  switch (from.type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return MakeFree(graph, from.free.dptr, out);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
      parameters.poolProps = from.alloc.poolProps;
      parameters.accessDescs = from.alloc.accessDescs;
      parameters.accessDescCount = from.alloc.accessDescCount;
      parameters.bytesize = from.alloc.bytesize;
      const CUresult error = MakeAllocation(graph, parameters, out);
      if (error == CUDA_SUCCESS) from.alloc.dptr = parameters.dptr;
      return error;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      bool moved = false;
#if CUDA_VERSION >= 12090
      if (from.graph.ownership > CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      moved = from.graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
#endif
      return MakeChild(graph, from.graph.graph, moved, out);
    }
#if CUDA_VERSION >= 12030
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return MakeConditionalNode(graph, from.conditional, out);
#endif
    default:
      return MakeNode(from, out);
  }
}

CUresult AddAny(CUgraphNode* out, const Place& place, CUgraphNodeParams* parameters) {
  if (!parameters || parameters->reserved2 != 0 || parameters->reserved0[0] != 0 ||
      parameters->reserved0[1] != 0 || parameters->reserved0[2] != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Add(out, place,
             [&](Graph& graph, NodeParameters& made) { return MakeAny(graph, *parameters, made); });
}
#endif

}  // namespace

CUresult AllocateCaptured(Stream& stream, CUdeviceptr* out, std::size_t bytes) {
  if (!stream.capture->valid) return Behaviour("capture.work.invalidated");
  Graph& graph = *stream.capture->graph;
  if (const CUresult error = CheckTakesMemoryNodes(graph)) return error;
  AllocationNode node{};
  node.parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  node.parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, stream.context->device};
  node.parameters.bytesize = bytes;
  if (const CUresult error =
          NewGraphBlock(*stream.context, Kind::kGraph, bytes, graph.handle, node.block)) {
    return error;
  }
  node.parameters.dptr = node.block->base;
  *out = node.block->base;
  return AddNode(stream, std::move(node));
}

CUresult FreeCaptured(Stream& stream, CUdeviceptr address) {
  if (!stream.capture->valid) return Behaviour("capture.work.invalidated");
  if (!FindGraphBlock(address)) return Behaviour("capture.cuMemFreeAsync.plain_pointer");
  NodeParameters node;
  if (const CUresult error = MakeFree(*stream.capture->graph, address, node)) return error;
  return AddNode(stream, std::move(node));
}

}  // namespace standin

using namespace standin;

#define GRAPH_PLACE CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count

ENTRY(cuGraphAddEmptyNode, (GRAPH_PLACE), (out, graph, dependencies, count)) {
  return Add(out, {graph, dependencies, count},
             [](Graph&, NodeParameters&) { return CUDA_SUCCESS; });
}

ENTRY(cuGraphAddKernelNode_v2, (GRAPH_PLACE, const CUDA_KERNEL_NODE_PARAMS* parameters),
      (out, graph, dependencies, count, parameters)) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  return Add(out, {graph, dependencies, count},
             [&](Graph&, NodeParameters& made) { return MakeKernelNode(*parameters, made); });
}

ENTRY(cuGraphAddKernelNode, (GRAPH_PLACE, const CUDA_KERNEL_NODE_PARAMS_v1* parameters),
      (out, graph, dependencies, count, parameters)) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  return Add(out, {graph, dependencies, count}, [&](Graph&, NodeParameters& made) {
    return MakeKernelNode(Widened(*parameters), made);
  });
}

ENTRY(cuGraphAddMemcpyNode, (GRAPH_PLACE, const CUDA_MEMCPY3D* copy, CUcontext context),
      (out, graph, dependencies, count, copy, context)) {
  if (!copy) return CUDA_ERROR_INVALID_VALUE;
  return Add(out, {graph, dependencies, count},
             [&](Graph&, NodeParameters& made) { return MakeCopyNode(*copy, context, made); });
}

ENTRY(cuGraphAddMemsetNode, (GRAPH_PLACE, const CUDA_MEMSET_NODE_PARAMS* set, CUcontext context),
      (out, graph, dependencies, count, set, context)) {
  if (!set) return CUDA_ERROR_INVALID_VALUE;
  return Add(out, {graph, dependencies, count},
             [&](Graph&, NodeParameters& made) { return MakeSetNode(*set, context, made); });
}

ENTRY(cuGraphAddHostNode, (GRAPH_PLACE, const CUDA_HOST_NODE_PARAMS* parameters),
      (out, graph, dependencies, count, parameters)) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  // Without a function, too: that is refused when it is changed only.
  return Add(out, {graph, dependencies, count}, [&](Graph&, NodeParameters& made) {
    made = HostNode{parameters->fn, parameters->userData};
    return CUDA_SUCCESS;
  });
}

ENTRY(cuGraphAddChildGraphNode, (GRAPH_PLACE, CUgraph child),
      (out, graph, dependencies, count, child)) {
  return Add(out, {graph, dependencies, count}, [&](Graph& parent, NodeParameters& made) {
    return MakeChild(parent, child, false, made);
  });
}

ENTRY(cuGraphAddEventRecordNode, (GRAPH_PLACE, CUevent event),
      (out, graph, dependencies, count, event)) {
  return Add(out, {graph, dependencies, count}, [&](Graph&, NodeParameters& made) {
    return MakeEventNode(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, made);
  });
}

ENTRY(cuGraphAddEventWaitNode, (GRAPH_PLACE, CUevent event),
      (out, graph, dependencies, count, event)) {
  return Add(out, {graph, dependencies, count}, [&](Graph&, NodeParameters& made) {
    return MakeEventNode(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, made);
  });
}

ENTRY(cuGraphAddMemAllocNode, (GRAPH_PLACE, CUDA_MEM_ALLOC_NODE_PARAMS* parameters),
      (out, graph, dependencies, count, parameters)) {
  if (!parameters) return CUDA_ERROR_INVALID_VALUE;
  return Add(out, {graph, dependencies, count}, [&](Graph& to, NodeParameters& made) {
    return MakeAllocation(to, *parameters, made);
  });
}

ENTRY(cuGraphAddMemFreeNode, (GRAPH_PLACE, CUdeviceptr address),
      (out, graph, dependencies, count, address)) {
  return Add(out, {graph, dependencies, count},
             [&](Graph& to, NodeParameters& made) { return MakeFree(to, address, made); });
}

#if CUDA_VERSION >= 12020
ENTRY(cuGraphAddNode, (GRAPH_PLACE, CUgraphNodeParams* parameters),
      (out, graph, dependencies, count, parameters)) {
  return AddAny(out, {graph, dependencies, count}, parameters);
}
#endif

#if CUDA_VERSION >= 12030
ENTRY(cuGraphAddNode_v2,
      (CUgraphNode * out, CUgraph graph, const CUgraphNode* dependencies,
       const CUgraphEdgeData* edges, size_t count, CUgraphNodeParams* parameters),
      (out, graph, dependencies, edges, count, parameters)) {
  return AddAny(out, {graph, dependencies, count, edges}, parameters);
}
#endif
