// What the software driver promises of graphs that are made by hand: nodes, edges, queries, clones,
// and that work is done in the order of the edges.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <sstream>

#include "graph_test.h"

using namespace standin_test;

namespace {

void Count(void* counter) {
  ++*static_cast<std::atomic<int>*>(counter);
}

}  // namespace

TEST_CASE("nodes of all kinds do their work when their graph is launched") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(64);
  const CUstream stream = NewStream();
  const CUgraph graph = NewGraph();
  std::atomic<int> called{0};
  const CUgraphNode set = AddSet(graph, memory, 7);
  const CUgraphNode copy = AddCopy(graph, memory + 4, memory, {set});
  void* data = reinterpret_cast<void*>(memory + 8);
  unsigned value = 9;
  std::uint64_t count = 1;
  void* arguments[] = {&data, &value, &count};
  const CUDA_KERNEL_NODE_PARAMS fill = KernelOf(FunctionOf("fill"), arguments);
  CUgraphNode kernel = nullptr;
  Must(cuGraphAddKernelNode_v2(&kernel, graph, &copy, 1, &fill));
  value = 0;  // the arguments were copied
  AddHost(graph, Count, &called, {kernel});
  const CUgraphExec exec = Instantiate(graph);
  CHECK(called == 0);
  LaunchAndWait(exec, stream);
  LaunchAndWait(exec, stream);
  CHECK(called == 2);
  CHECK(ReadWord(memory) == 7);
  CHECK(ReadWord(memory + 4) == 7);
  CHECK(ReadWord(memory + 8) == 9);
  CUDA_KERNEL_NODE_PARAMS told{};
  Must(cuGraphKernelNodeGetParams_v2(kernel, &told));
  CHECK(told.func == fill.func);
  REQUIRE(told.kernelParams != nullptr);
  CHECK(*static_cast<unsigned*>(told.kernelParams[1]) == 9);
}

TEST_CASE("edges, not the order of creation, decide what comes last") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUgraph graph = NewGraph();
  const CUgraphNode first = AddSet(graph, memory, 1);
  const CUgraphNode second = AddSet(graph, memory, 2);
  Must(cuGraphAddDependencies(graph, &second, &first, 1));
  LaunchAndWait(Instantiate(graph), NewStream());
  CHECK(ReadWord(memory) == 1);
  Must(cuGraphRemoveDependencies(graph, &second, &first, 1));
  Must(cuGraphAddDependencies(graph, &first, &second, 1));
  LaunchAndWait(Instantiate(graph), NewStream());
  CHECK(ReadWord(memory) == 2);
}

TEST_CASE("a node waits for all on which it depends, whenever they were created") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(8);
  const CUgraph graph = NewGraph();
  const CUgraphNode last = AddCopy(graph, memory + 4, memory);
  const CUgraphNode first = AddSet(graph, memory, 1);
  const CUgraphNode second = AddSet(graph, memory, 2, {first});
  const Nodes from{first, second};
  const Nodes to{last, last};
  Must(cuGraphAddDependencies(graph, from.data(), to.data(), 2));
  LaunchAndWait(Instantiate(graph), NewStream());
  CHECK(ReadWord(memory + 4) == 2);
}

TEST_CASE("lists of nodes are filled as far as there are nodes, and with nulls beyond") {
  const Device device;
  const CUgraph graph = NewGraph();
  const CUgraphNode root = AddEmpty(graph);
  const CUgraphNode left = AddEmpty(graph, {root});
  const CUgraphNode right = AddEmpty(graph, {root});
  const CUgraphNode last = AddEmpty(graph, {left, right});
  CHECK(NodesOf(graph) == Nodes{root, left, right, last});
  CHECK(DependenciesOf(last) == Nodes{left, right});
  CUgraphNode list[6] = {last, last, last, last, last, last};
  std::size_t count = 2;
  Must(cuGraphGetNodes(graph, list, &count));
  CHECK(count == 2);
  CHECK(list[2] == last);
  count = 6;
  Must(cuGraphGetNodes(graph, list, &count));
  CHECK(count == 4);
  CHECK(list[4] == nullptr);
  count = 0;
  Must(cuGraphGetRootNodes(graph, nullptr, &count));
  CHECK(count == 1);
  count = 6;
  Must(cuGraphNodeGetDependentNodes(root, list, &count));
  CHECK(count == 2);
  CHECK(list[0] == left);
  CUgraphNode from[5];
  CUgraphNode to[5];
  count = 5;
  Must(cuGraphGetEdges(graph, from, to, &count));
  CHECK(count == 4);
  CHECK(from[4] == nullptr);
  CHECK(to[4] == nullptr);
  CHECK(cuGraphGetEdges(graph, from, nullptr, &count) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphGetNodes(graph, list, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a cycle is found when the graph is instantiated, and one of its nodes is named") {
  const Device device;
  const CUgraph graph = NewGraph();
  AddEmpty(graph);
  const CUgraphNode first = AddEmpty(graph);
  const CUgraphNode second = AddEmpty(graph, {first});
  Must(cuGraphAddDependencies(graph, &second, &first, 1));
  CHECK(TryInstantiate(graph) == CUDA_ERROR_INVALID_VALUE);
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiateWithParams(&exec, graph, &parameters) == CUDA_ERROR_INVALID_VALUE);
  CHECK(parameters.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
  CHECK((parameters.hErrNode_out == first || parameters.hErrNode_out == second));
  char log[64] = {};
  CUgraphNode offender = nullptr;
  CHECK(cuGraphInstantiate_v2(&exec, graph, &offender, log, sizeof(log)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(offender != nullptr);
  CHECK(log[0] != 0);
  Must(cuGraphRemoveDependencies(graph, &second, &first, 1));
  Must(TryInstantiate(graph));
}

TEST_CASE("edges that are there, that are not, or that leave the graph are refused") {
  const Device device;
  const CUgraph graph = NewGraph();
  const CUgraphNode first = AddEmpty(graph);
  const CUgraphNode second = AddEmpty(graph, {first});
  const CUgraphNode foreign = AddEmpty(NewGraph());
  CHECK(cuGraphAddDependencies(graph, &first, &second, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphAddDependencies(graph, &first, &first, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphAddDependencies(graph, &foreign, &second, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphRemoveDependencies(graph, &second, &first, 1) == CUDA_ERROR_INVALID_VALUE);
  CUgraphNode node = nullptr;
  CHECK(cuGraphAddEmptyNode(&node, graph, &foreign, 1) == CUDA_ERROR_INVALID_VALUE);
  const Nodes twice{first, first};
  CHECK(cuGraphAddEmptyNode(&node, graph, twice.data(), 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphAddEmptyNode(&node, graph, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(NodesOf(graph).size() == 2);
}

TEST_CASE("handles of what was destroyed are refused") {
  const Device device;
  const CUgraph graph = NewGraph();
  const CUgraphNode first = AddEmpty(graph);
  const CUgraphNode second = AddEmpty(graph, {first});
  Must(cuGraphDestroyNode(first));
  CHECK(DependenciesOf(second).empty());
  CUgraphNodeType type{};
  CHECK(cuGraphNodeGetType(first, &type) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphDestroyNode(first) == CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec exec = Instantiate(graph);
  Must(cuGraphDestroy(graph));
  CHECK(cuGraphNodeGetType(second, &type) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphDestroy(graph) == CUDA_ERROR_INVALID_VALUE);
  CHECK(TryInstantiate(graph) == CUDA_ERROR_INVALID_VALUE);
  Must(cuGraphExecDestroy(exec));
  CHECK(cuGraphExecDestroy(exec) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphLaunch(exec, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("parameters that make no sense are refused and leave no node") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(16);
  const CUgraph graph = NewGraph();
  CUgraphNode node = nullptr;
  const auto set = [&](const CUDA_MEMSET_NODE_PARAMS& wanted) {
    return cuGraphAddMemsetNode(&node, graph, nullptr, 0, &wanted, device.context());
  };
  CUDA_MEMSET_NODE_PARAMS three = SetOf(memory, 1);
  three.elementSize = 3;
  CHECK(set(three) == CUDA_ERROR_INVALID_VALUE);
  CUDA_MEMSET_NODE_PARAMS wide = SetOf(memory, 1);
  wide.width = 1000;
  CHECK(set(wide) != CUDA_SUCCESS);
  CHECK(set(SetOf(memory + 2, 1)) != CUDA_SUCCESS);
  const CUDA_MEMCPY3D copy = CopyOf(memory, 0x1000);
  CHECK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, device.context()) != CUDA_SUCCESS);
  const CUDA_HOST_NODE_PARAMS host{nullptr, nullptr};
  REQUIRE(cuGraphAddHostNode(&node, graph, nullptr, 0, &host) == CUDA_SUCCESS);  // of all only this
  CHECK(cuGraphHostNodeSetParams(node, &host) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuGraphDestroyNode(node) == CUDA_SUCCESS);
  void* extra[] = {CU_LAUNCH_PARAM_END};
  CUDA_KERNEL_NODE_PARAMS kernel = KernelOf(FunctionOf("unknown"), extra);
  kernel.extra = extra;
  CHECK(cuGraphAddKernelNode_v2(&node, graph, nullptr, 0, &kernel) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphAddEventRecordNode(&node, graph, nullptr, 0, nullptr) != CUDA_SUCCESS);
  CHECK(NodesOf(graph).empty());
}

TEST_CASE("a child graph is a copy, and runs within its parent") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(8);
  const CUgraph child = NewGraph();
  const CUgraphNode original = AddSet(child, memory, 5);
  const CUgraph parent = NewGraph();
  CUgraphNode node = nullptr;
  Must(cuGraphAddChildGraphNode(&node, parent, nullptr, 0, child));
  AddCopy(parent, memory + 4, memory, {node});
  CUgraph inner = nullptr;
  Must(cuGraphChildGraphNodeGetGraph(node, &inner));
  CHECK(inner != child);
  CUgraphNode copied = nullptr;
  Must(cuGraphNodeFindInClone(&copied, original, inner));
  CHECK(NodesOf(inner) == Nodes{copied});
  CHECK(cuGraphDestroy(inner) == CUDA_ERROR_INVALID_VALUE);  // it is the node's
  Must(cuGraphDestroy(child));
  LaunchAndWait(Instantiate(parent), NewStream());
  CHECK(ReadWord(memory + 4) == 5);
  Must(cuGraphDestroy(parent));
  std::size_t count = 0;
  CHECK(cuGraphGetNodes(inner, nullptr, &count) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a clone has the same nodes and edges, and goes its own way") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUgraph graph = NewGraph();
  const CUgraphNode first = AddSet(graph, memory, 1);
  const CUgraphNode second = AddSet(graph, memory, 2, {first});
  CUgraph clone = nullptr;
  Must(cuGraphClone(&clone, graph));
  CUgraphNode copy = nullptr;
  Must(cuGraphNodeFindInClone(&copy, second, clone));
  CUgraphNode copy_of_first = nullptr;
  Must(cuGraphNodeFindInClone(&copy_of_first, first, clone));
  CHECK(DependenciesOf(copy) == Nodes{copy_of_first});
  const CUDA_MEMSET_NODE_PARAMS other = SetOf(memory, 3);
  Must(cuGraphMemsetNodeSetParams(copy, &other));
  LaunchAndWait(Instantiate(graph), NewStream());
  CHECK(ReadWord(memory) == 2);
  LaunchAndWait(Instantiate(clone), NewStream());
  CHECK(ReadWord(memory) == 3);
  CHECK(cuGraphNodeFindInClone(&copy, second, graph) == CUDA_ERROR_INVALID_VALUE);
  Must(cuGraphDestroyNode(copy_of_first));
  CHECK(cuGraphNodeFindInClone(&copy, first, clone) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("an event that a graph records is done when its node is, and a graph waits for events") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(8);
  CUevent recorded = nullptr;
  CUevent awaited = nullptr;
  Must(cuEventCreate(&recorded, CU_EVENT_DISABLE_TIMING));
  Must(cuEventCreate(&awaited, CU_EVENT_DISABLE_TIMING));
  const CUgraph graph = NewGraph();
  CUgraphNode wait = nullptr;
  Must(cuGraphAddEventWaitNode(&wait, graph, nullptr, 0, awaited));
  const CUgraphNode copy = AddCopy(graph, memory + 4, memory, {wait});
  CUgraphNode record = nullptr;
  Must(cuGraphAddEventRecordNode(&record, graph, &copy, 1, recorded));
  CUevent told = nullptr;
  Must(cuGraphEventRecordNodeGetEvent(record, &told));
  CHECK(told == recorded);
  CHECK(cuGraphEventWaitNodeGetEvent(record, &told) == CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec exec = Instantiate(graph);
  const CUstream other = NewStream();
  standin_hold_stream(other);
  Must(cuMemsetD32Async(memory, 4, 1, other));
  Must(cuEventRecord(awaited, other));
  const CUstream stream = NewStream();
  Must(cuGraphLaunch(exec, stream));
  CHECK(cuEventQuery(recorded) == CUDA_ERROR_NOT_READY);
  standin_release_stream(other);
  Must(cuEventSynchronize(recorded));
  CHECK(ReadWord(memory + 4) == 4);
  Must(cuStreamSynchronize(stream));
}

TEST_CASE("launches of one executable graph follow each other, in whatever streams") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUgraph graph = NewGraph();
  AddSet(graph, memory, 1);
  const CUgraphExec exec = Instantiate(graph);
  const CUstream first = NewStream();
  const CUstream second = NewStream();
  standin_hold_stream(first);
  Must(cuGraphLaunch(exec, first));
  Must(cuGraphLaunch(exec, second));
  for (int i = 0; i < 50; ++i) ReadWord(memory);  // time enough for what need not wait
  CHECK(cuStreamQuery(second) == CUDA_ERROR_NOT_READY);
  standin_release_stream(first);
  Must(cuStreamSynchronize(second));
}

TEST_CASE("a graph and its executable graph may be destroyed while it runs") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUstream stream = NewStream();
  const CUgraph child = NewGraph();
  AddSet(child, memory, 6);
  const CUgraph graph = NewGraph();
  CUgraphNode node = nullptr;
  Must(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
  const CUgraphExec exec = Instantiate(graph);
  standin_hold_stream(stream);
  Must(cuGraphLaunch(exec, stream));
  Must(cuGraphExecDestroy(exec));
  Must(cuGraphDestroy(graph));
  Must(cuGraphDestroy(child));
  standin_release_stream(stream);
  Must(cuStreamSynchronize(stream));
  CHECK(ReadWord(memory) == 6);
}

TEST_CASE("a graph is described for Graphviz") {
  const Device device;
  const CUgraph graph = NewGraph();
  const CUgraphNode root = AddEmpty(graph);
  std::atomic<int> called{0};
  AddHost(graph, Count, &called, {root});
  const std::string path = SharedFile() + ".dot";
  Must(cuGraphDebugDotPrint(graph, path.c_str(), CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  unlink(path.c_str());
  CHECK(text.str().rfind("digraph", 0) == 0);
  CHECK(text.str().find("HOST") != std::string::npos);
  CHECK(text.str().find(" -> ") != std::string::npos);
  CHECK(cuGraphDebugDotPrint(graph, "/nowhere/graph", 0) == CUDA_ERROR_OPERATING_SYSTEM);
}
