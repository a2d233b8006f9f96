// Graphs as plain data: nodes of a type, the edges between them, and the executable graphs made of
// them; and the functions that the files graph*.cpp have for each other and for captures. All of
// them want state().mutex held, but for RunPlan.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "kernels.h"
#include "state.h"
#include "user_objects.h"

namespace standin {

struct GraphBlock;  // graph_memory.h
struct GraphExec;

// A variable on which conditional nodes decide. Kernels set it while a graph runs.
struct Condition {
  std::uint64_t handle = 0;
  CUcontext context = nullptr;
  unsigned default_value = 0;
  bool assigned_at_launch = false;
  bool has_node = false;
  std::atomic<unsigned> value{0};
  std::atomic<std::uint64_t> sets{0};  // by kernels
};

enum class ConditionType { kIf, kWhile, kSwitch };

struct EmptyNode {};

struct KernelNode {
  CUfunction function = nullptr;
  CUkernel library_kernel = nullptr;  // where the function was given as one
  CUcontext context = nullptr;
  const Kernel* kernel = nullptr;  // null: computes nothing
  Launch launch{};
  std::vector<CUdeviceptr> addresses =
      {};  // that it gets, where it computes nothing and no data is kept
  unsigned shared_bytes = 0;
  std::map<CUkernelNodeAttrID, CUkernelNodeAttrValue> attributes = {};
};

struct CopyNode {
  CUDA_MEMCPY3D copy;
  CUcontext context;
};

struct SetNode {
  CUDA_MEMSET_NODE_PARAMS set;
  CUcontext context;
};

struct HostNode {
  CUhostFn function;
  void* data;
};

struct ChildNode {
  std::shared_ptr<Graph> graph;
};

struct RecordNode {
  CUevent event;
};

struct WaitNode {
  CUevent event;
};

struct AllocationNode {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters;
  std::vector<CUmemAccessDesc> access;
  std::shared_ptr<GraphBlock> block;
};

struct FreeNode {
  std::shared_ptr<GraphBlock> block;
};

struct ConditionalNode {
  std::shared_ptr<Condition> condition;
  ConditionType type;
  std::vector<std::shared_ptr<Graph>> bodies;
  std::shared_ptr<std::vector<CUgraph>> handles;  // of the bodies; shown to the program
};

using NodeParameters =
    std::variant<EmptyNode, KernelNode, CopyNode, SetNode, HostNode, ChildNode, RecordNode,
                 WaitNode, AllocationNode, FreeNode, ConditionalNode>;

struct GraphEdge {
  GraphNode* from;
  EdgeData data;
};

struct GraphNode {
  CUgraphNode handle = nullptr;
  Graph* graph = nullptr;
  NodeParameters parameters;
  std::vector<GraphEdge> dependencies = {};  // in the order in which they were added
  CUgraphNode cloned_from = nullptr;
  bool must_be_joined = false;           // captured, and not let go of by the program's own hand
  std::vector<void*> argument_pointers;  // into a kernel node's arguments, for who asks
};

enum class GraphOwner { kProgram, kCapture, kChildNode, kMoved, kConditional };

struct Graph {
  CUgraph handle = nullptr;
  GraphOwner owner = GraphOwner::kProgram;
  std::vector<std::unique_ptr<GraphNode>> nodes = {};  // in the order in which they were added
  std::vector<std::shared_ptr<Condition>> conditions = {};
  UserReferences objects = {};
  CUgraph clone_of = nullptr;
  unsigned captures = 0;  // that are under way into it
  unsigned execs = 0;     // made of it and not destroyed
};

struct ExecGraph;

struct ExecNode {
  CUgraphNode source;
  std::shared_ptr<const NodeParameters> parameters;
  std::vector<std::size_t> dependencies;  // indexes of nodes
  bool enabled = true;
  std::vector<ExecGraph> inner;  // of a child node its graph, of a conditional one its bodies
};

struct ExecGraph {
  std::vector<ExecNode> nodes = {};     // as in the graph
  std::vector<std::size_t> order = {};  // in which they may run
};

struct GraphExec {
  ExecGraph graph;
  cuuint64_t flags = 0;
  std::weak_ptr<Graph> source;
  std::vector<std::shared_ptr<Condition>> conditions;
  std::shared_ptr<const UserReferences> objects;  // a launch holds those that there were
  FencePtr last_launch = {};
};
using GraphExecPtr = std::shared_ptr<GraphExec>;

// A handle that no other object has or had, so that one that was destroyed is always told.
template <typename Handle>
Handle NewHandle() {
  static std::uintptr_t last = 0x6a0000000000;
  last += 16;
  return reinterpret_cast<Handle>(last);
}

// --- graphs.cpp: graphs and their nodes come and go

CUresult FindGraph(CUgraph handle, std::shared_ptr<Graph>& out);
CUresult FindNode(CUgraphNode handle, GraphNode*& out);
std::shared_ptr<Graph> NewGraph(GraphOwner owner);
// The graph's handle and those of its nodes are no use any more; the work of executable graphs that
// were made of it is.
void EndGraph(Graph& graph);
GraphNode& AppendNode(Graph& graph, NodeParameters parameters, const DependencySet& after);
// Copies all nodes and edges, child graphs too. Not for graphs whose memory cannot be copied.
std::shared_ptr<Graph> CloneOf(const Graph& graph, GraphOwner owner);

// Whether the graph, or a child graph in it, has nodes of these types.
bool HasMemoryNodes(const Graph& graph);
bool HasConditionalNodes(const Graph& graph);

// --- graph_queries.cpp

// Whether `from` comes before `to`, by any path.
bool Reaches(const GraphNode& from, const GraphNode& to);

// --- graph_edges.cpp

CUresult CheckEdge(const GraphNode& from, const GraphNode* to, const EdgeData& data);
// The arguments of a call that adds a node to a graph, checked.
CUresult ReadDependencies(const Graph& graph, const CUgraphNode* nodes, const void* edge_data,
                          std::size_t count, DependencySet& out);

// --- graph_parameters.cpp: what the program gives becomes a node's parameters, or an error

CUgraphNodeType TypeOf(const NodeParameters& parameters);
CUDA_KERNEL_NODE_PARAMS Widened(const CUDA_KERNEL_NODE_PARAMS_v1& from);
CUresult MakeKernelNode(const CUDA_KERNEL_NODE_PARAMS& from, NodeParameters& out);
CUresult MakeCopyNode(const CUDA_MEMCPY3D& from, CUcontext context, NodeParameters& out);
CUresult MakeSetNode(const CUDA_MEMSET_NODE_PARAMS& from, CUcontext context, NodeParameters& out);
CUresult MakeHostNode(const CUDA_HOST_NODE_PARAMS& from, NodeParameters& out);
CUresult MakeEventNode(CUgraphNodeType type, CUevent event, NodeParameters& out);
#if CUDA_VERSION >= 12020
// Of the types whose parameters may also be changed later.
CUresult MakeNode(const CUgraphNodeParams& from, NodeParameters& out);
#endif

// --- graph_node_parameters.cpp

// The node that was made of this one, or null.
ExecNode* FindIn(ExecGraph& graph, CUgraphNode source);

// --- graph_instantiate.cpp

struct InstantiateAnswer {
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  CUgraphNode node = nullptr;
};
CUresult FindExec(CUgraphExec handle, GraphExecPtr& out);
// The user objects of the graph and of all that are inside it: what an executable graph of it owns.
std::shared_ptr<const UserReferences> ObjectsOf(const Graph& graph);
// What the graph does, in an order in which it may be done. False where there is a cycle, of which
// `offender` is a node.
bool Compile(const Graph& graph, ExecGraph& out, CUgraphNode& offender);

// --- graph_launch.cpp

CUresult UploadGraph(GraphExec& exec, CUstream stream);

// --- graph_runs.cpp: one launch of an executable graph

struct PlannedNode;
using Plan = std::vector<PlannedNode>;
struct PlannedNode {
  std::shared_ptr<const NodeParameters> parameters;
  Fences wait;               // of an event wait node
  FencePtr record;           // of an event record node
  std::vector<Plan> bodies;  // of a conditional node
};

// Later changes of the executable graph do not concern the plan. Records events as of now: they are
// done in the course of the launch, whose end the caller names.
Plan PlanOf(const ExecGraph& graph, const FencePtr& launch);
void RunPlan(const Plan& plan, std::chrono::nanoseconds delay);

// What a set does with the bytes, and a copy (array_copies.cpp).
void RunSet(const CUDA_MEMSET_NODE_PARAMS& set);
void RunCopy(const CUDA_MEMCPY3D& copy);

// --- graph_conditionals.cpp

// From a kernel, thus without state().mutex.
void SetCondition(std::uint64_t handle, unsigned value);
void ForgetCondition(const Condition& condition);
#if CUDA_VERSION >= 12030
CUresult MakeConditionalNode(const Graph& graph, CUDA_CONDITIONAL_NODE_PARAMS& parameters,
                             NodeParameters& out);
#endif

}  // namespace standin
