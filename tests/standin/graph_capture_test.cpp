// What the software driver promises of captures as graphs: each piece of work is a node of its
// type, and the program may look at the graph and change it meanwhile. And of executable graphs
// that change.
#include <atomic>

#include "graph_test.h"

using namespace standin_test;

namespace {

void Count(void* counter) {
  ++*static_cast<std::atomic<int>*>(counter);
}

void Begin(CUstream stream) {
  Must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

CUgraph End(CUstream stream) {
  CUgraph graph = nullptr;
  Must(cuStreamEndCapture(stream, &graph));
  return graph;
}

struct Information {
  CUgraph graph = nullptr;
  Nodes dependencies = {};
};

Information Ask(CUstream stream) {
  CUstreamCaptureStatus status{};
  cuuint64_t id = 0;
  Information out;
  const CUgraphNode* nodes = nullptr;
  std::size_t count = 0;
  Must(cuStreamGetCaptureInfo_v2(stream, &status, &id, &out.graph, &nodes, &count));
  REQUIRE(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  out.dependencies.assign(nodes, nodes + count);
  return out;
}

}  // namespace

TEST_CASE("captured work becomes nodes of its type, one behind the other") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(16);
  const CUstream stream = NewStream();
  std::atomic<int> called{0};
  unsigned word = 0;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  Must(cuModuleLoadData(&module, "image"));
  Must(cuModuleGetFunction(&kernel, module, "unknown"));
  CUdeviceptr of_graph = 0;
  Begin(stream);
  Must(cuMemsetD32Async(memory, 2, 1, stream));
  Must(cuMemcpyDtoHAsync_v2(&word, memory, 4, stream));
  Must(cuLaunchKernel(kernel, 2, 1, 1, 4, 1, 1, 0, stream, nullptr, nullptr));
  Must(cuLaunchHostFunc(stream, Count, &called));
  Must(cuMemAllocAsync(&of_graph, 4096, stream));
  Must(cuMemFreeAsync(of_graph, stream));
  const CUgraph graph = End(stream);
  CHECK(TypesOf(graph) ==
        std::vector<CUgraphNodeType>{CU_GRAPH_NODE_TYPE_MEMSET, CU_GRAPH_NODE_TYPE_MEMCPY,
                                     CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_HOST,
                                     CU_GRAPH_NODE_TYPE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_FREE});
  const Nodes nodes = NodesOf(graph);
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    CHECK(DependenciesOf(nodes[i]) == Nodes{nodes[i - 1]});
  }
  CUDA_MEMSET_NODE_PARAMS set{};
  Must(cuGraphMemsetNodeGetParams(nodes[0], &set));
  CHECK(set.dst == memory);
  CHECK(set.value == 2);
  CUDA_MEMCPY3D copy{};
  Must(cuGraphMemcpyNodeGetParams(nodes[1], &copy));
  CHECK(copy.srcMemoryType == CU_MEMORYTYPE_DEVICE);
  CHECK(copy.dstMemoryType == CU_MEMORYTYPE_HOST);
  CHECK(copy.dstHost == &word);
  CUDA_KERNEL_NODE_PARAMS launch{};
  Must(cuGraphKernelNodeGetParams_v2(nodes[2], &launch));
  CHECK(launch.gridDimX == 2);
  CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
  Must(cuGraphMemAllocNodeGetParams(nodes[4], &allocation));
  CHECK(allocation.dptr == of_graph);
  CHECK(allocation.bytesize == 4096);
  LaunchAndWait(Instantiate(graph), stream);
  CHECK(word == 2);
  CHECK(called == 1);
}

TEST_CASE("a capture shows its graph and what comes next depends on, forks too") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(16);
  const CUstream first = NewStream();
  const CUstream second = NewStream();
  CUevent fork = nullptr;
  CUevent join = nullptr;
  Must(cuEventCreate(&fork, 0));
  Must(cuEventCreate(&join, 0));
  Begin(first);
  CHECK(Ask(first).dependencies.empty());
  Must(cuMemsetD32Async(memory, 1, 1, first));
  const CUgraph graph = Ask(first).graph;
  const CUgraphNode root = Ask(first).dependencies.at(0);
  Must(cuEventRecord(fork, first));
  Must(cuStreamWaitEvent(second, fork, 0));
  CHECK(Ask(second).dependencies == Nodes{root});
  Must(cuMemcpyDtoDAsync_v2(memory + 4, memory, 4, first));
  Must(cuMemcpyDtoDAsync_v2(memory + 8, memory, 4, second));
  const CUgraphNode left = Ask(first).dependencies.at(0);
  const CUgraphNode right = Ask(second).dependencies.at(0);
  CHECK(DependenciesOf(left) == Nodes{root});
  CHECK(DependenciesOf(right) == Nodes{root});
  Must(cuEventRecord(join, second));
  Must(cuStreamWaitEvent(first, join, 0));
  Must(cuStreamWaitEvent(first, join, 0));  // once more changes nothing
  CHECK(Ask(first).dependencies == Nodes{left, right});
  CHECK(cuGraphDestroy(graph) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuGraphDestroyNode(left) == CUDA_ERROR_INVALID_VALUE);
  CHECK(End(first) == graph);
  LaunchAndWait(Instantiate(graph), first);
  CHECK(ReadWord(memory + 8) == 1);
  Must(cuGraphDestroy(graph));
}

TEST_CASE("the graph of a capture that fails is gone, with its memory") {
  const Device device;
  const CUstream stream = NewStream();
  CUdeviceptr address = 0;
  Begin(stream);
  Must(cuMemAllocAsync(&address, 4096, stream));
  const CUgraph graph = Ask(stream).graph;
  CHECK(cuStreamQuery(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph out = graph;
  CHECK(cuStreamEndCapture(stream, &out) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(out == nullptr);
  std::size_t count = 0;
  CHECK(cuGraphGetNodes(graph, nullptr, &count) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(address) != CUDA_SUCCESS);
}

TEST_CASE("nodes added by hand are woven into a capture") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(16);
  const CUstream stream = NewStream();
  CUgraphNode none = nullptr;
  CHECK(cuStreamUpdateCaptureDependencies(stream, &none, 0, 0) == CUDA_ERROR_ILLEGAL_STATE);
  Begin(stream);
  Must(cuMemsetD32Async(memory, 1, 1, stream));
  const Information before = Ask(stream);
  CUgraphNode set = AddSet(before.graph, memory, 5, before.dependencies);
  CUgraphNode foreign = AddEmpty(NewGraph());
  CHECK(cuStreamUpdateCaptureDependencies(stream, &foreign, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamUpdateCaptureDependencies(stream, &set, 1, 7) == CUDA_ERROR_INVALID_VALUE);
  Must(cuStreamUpdateCaptureDependencies(stream, &set, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
  CHECK(Ask(stream).dependencies == Nodes{before.dependencies[0], set});
  Must(cuStreamUpdateCaptureDependencies(stream, &set, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  CHECK(Ask(stream).dependencies == Nodes{set});
  Must(cuMemcpyDtoDAsync_v2(memory + 4, memory, 4, stream));
  LaunchAndWait(Instantiate(End(stream)), stream);
  CHECK(ReadWord(memory + 4) == 5);
}

TEST_CASE("nodes that a capture lets go of need not be joined") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(16);
  const CUstream stream = NewStream();
  Begin(stream);
  Must(cuMemsetD32Async(memory, 1, 1, stream));
  Must(cuStreamUpdateCaptureDependencies(stream, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  Must(cuMemsetD32Async(memory + 4, 2, 1, stream));
  const CUgraph graph = End(stream);
  CHECK(NodesOf(graph).size() == 2);
  CHECK(DependenciesOf(NodesOf(graph)[1]).empty());
}

TEST_CASE("a launch in a stream that captures becomes a child graph") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUstream stream = NewStream();
  const CUgraph inner = NewGraph();
  AddSet(inner, memory, 3);
  const CUgraphExec exec = Instantiate(inner);
  Begin(stream);
  Must(cuGraphLaunch(exec, stream));
  const CUgraph graph = End(stream);
  CHECK(TypesOf(graph) == std::vector<CUgraphNodeType>{CU_GRAPH_NODE_TYPE_GRAPH});
  Must(cuGraphExecDestroy(exec));
  Must(cuGraphDestroy(inner));
  LaunchAndWait(Instantiate(graph), stream);
  CHECK(ReadWord(memory) == 3);
}

#if CUDA_VERSION >= 12030
TEST_CASE("a capture goes into a graph that is there, behind nodes of it") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(8);
  const CUstream stream = NewStream();
  const CUgraph graph = NewGraph();
  const CUgraphNode first = AddSet(graph, memory, 6);
  const CUgraphNode beside = AddEmpty(graph);
  const CUgraphNode foreign = AddEmpty(NewGraph());
  constexpr auto kMode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  CHECK(cuStreamBeginCaptureToGraph(stream, graph, &foreign, nullptr, 1, kMode) ==
        CUDA_ERROR_INVALID_VALUE);
  Must(cuStreamBeginCaptureToGraph(stream, graph, &first, nullptr, 1, kMode));
  Must(cuMemcpyDtoDAsync_v2(memory + 4, memory, 4, stream));
  CHECK(End(stream) == graph);
  const Nodes nodes = NodesOf(graph);
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[1] == beside);
  CHECK(DependenciesOf(nodes[2]) == Nodes{first});
  LaunchAndWait(Instantiate(graph), stream);
  CHECK(ReadWord(memory + 4) == 6);
}
#endif

TEST_CASE("an executable graph's nodes change for launches to come, not for those that were made") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(8);
  const CUstream stream = NewStream();
  const CUgraph graph = NewGraph();
  const CUgraphNode node = AddSet(graph, memory, 1);
  const CUgraphNode copy = AddCopy(graph, memory + 4, memory, {node});
  const CUgraphExec exec = Instantiate(graph);
  const CUDA_MEMSET_NODE_PARAMS two = SetOf(memory, 2);
  standin_hold_stream(stream);
  Must(cuGraphLaunch(exec, stream));
  Must(cuGraphExecMemsetNodeSetParams(exec, node, &two, device.context()));
  standin_release_stream(stream);
  Must(cuStreamSynchronize(stream));
  CHECK(ReadWord(memory) == 1);
  LaunchAndWait(exec, stream);
  CHECK(ReadWord(memory + 4) == 2);
  CUDA_MEMSET_NODE_PARAMS told{};
  Must(cuGraphMemsetNodeGetParams(node, &told));
  CHECK(told.value == 1);
  Must(cuGraphNodeSetEnabled(exec, copy, 0));
  unsigned enabled = 1;
  Must(cuGraphNodeGetEnabled(exec, copy, &enabled));
  CHECK(enabled == 0);
  const CUDA_MEMSET_NODE_PARAMS three = SetOf(memory, 3);
  Must(cuGraphExecMemsetNodeSetParams(exec, node, &three, device.context()));
  LaunchAndWait(exec, stream);
  CHECK(ReadWord(memory) == 3);
  CHECK(ReadWord(memory + 4) == 2);
  CHECK(cuGraphExecMemsetNodeSetParams(exec, copy, &three, device.context()) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphNodeSetEnabled(exec, AddEmpty(NewGraph()), 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("an executable graph takes over a graph of its shape, and no other") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(8);
  const CUstream stream = NewStream();
  const CUgraph graph = NewGraph();
  AddSet(graph, memory, 1, {});
  AddEmpty(graph, {NodesOf(graph)[0]});
  const CUgraphExec exec = Instantiate(graph);
  const CUgraph same = NewGraph();
  AddSet(same, memory, 2);
  AddEmpty(same, {NodesOf(same)[0]});
  CUgraphExecUpdateResultInfo information{};
  Must(cuGraphExecUpdate_v2(exec, same, &information));
  CHECK(information.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
  LaunchAndWait(exec, stream);
  CHECK(ReadWord(memory) == 2);

  const CUgraph longer = NewGraph();
  AddEmpty(longer);
  AddEmpty(longer);
  AddEmpty(longer);
  CHECK(cuGraphExecUpdate_v2(exec, longer, &information) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(information.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  const CUgraph loose = NewGraph();
  AddSet(loose, memory, 2);
  const CUgraphNode unbound = AddEmpty(loose);
  CHECK(cuGraphExecUpdate_v2(exec, loose, &information) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(information.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CHECK(information.errorNode == unbound);
  const CUgraph other = NewGraph();
  const CUgraphNode empty = AddEmpty(other);
  AddEmpty(other, {empty});
  CUgraphNode offender = nullptr;
  CUgraphExecUpdateResult result{};
  CHECK(cuGraphExecUpdate(exec, other, &offender, &result) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CHECK(result == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  CHECK(offender == empty);
  LaunchAndWait(exec, stream);
  CHECK(ReadWord(memory) == 2);
}
