// What the software driver promises of what newer headers have: data of edges, the general call
// that adds nodes, and conditional nodes.
#include <cstdint>

#include "graph_test.h"

using namespace standin_test;

#if CUDA_VERSION >= 12030
TEST_CASE("the data of edges is kept, and not lost silently") {
  const Device device;
  const CUgraph graph = NewGraph();
  const CUDA_KERNEL_NODE_PARAMS kernel = KernelOf(FunctionOf("unknown"), nullptr);
  CUgraphNode first = nullptr;
  CUgraphNode second = nullptr;
  Must(cuGraphAddKernelNode_v2(&first, graph, nullptr, 0, &kernel));
  Must(cuGraphAddKernelNode_v2(&second, graph, nullptr, 0, &kernel));
  CUgraphEdgeData data{};
  data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  const CUgraphNode empty = AddEmpty(graph);
  CHECK(cuGraphAddDependencies_v2(graph, &first, &empty, &data, 1) == CUDA_ERROR_INVALID_VALUE);
  Must(cuGraphAddDependencies_v2(graph, &first, &second, &data, 1));
  CUgraphNode from = nullptr;
  CUgraphNode to = nullptr;
  std::size_t count = 1;
  CHECK(cuGraphGetEdges(graph, &from, &to, &count) == CUDA_ERROR_LOSSY_QUERY);
  CUgraphEdgeData told{};
  count = 1;
  Must(cuGraphGetEdges_v2(graph, &from, &to, &told, &count));
  CHECK(told.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  CHECK(cuGraphRemoveDependencies(graph, &first, &second, 1) == CUDA_ERROR_INVALID_VALUE);
  Must(cuGraphRemoveDependencies_v2(graph, &first, &second, &data, 1));
}

TEST_CASE("the general call adds nodes of any type, and takes no rubbish in unused bytes") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUgraph graph = NewGraph();
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_MEMSET;
  parameters.memset = {memory, 0, 8, 4, 1, 1, device.context()};
  CUgraphNode node = nullptr;
  Must(cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &parameters));
  CHECK(TypeOf(node) == CU_GRAPH_NODE_TYPE_MEMSET);
  parameters.reserved0[1] = 1;
  CHECK(cuGraphAddNode_v2(&node, graph, nullptr, nullptr, 0, &parameters) ==
        CUDA_ERROR_INVALID_VALUE);
  LaunchAndWait(Instantiate(graph), NewStream());
  CHECK(ReadWord(memory) == 8);
}

TEST_CASE("a node that the general call adds without a context is of the current one") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(8);
  const CUgraph graph = NewGraph();
  CUgraphNodeParams set{};
  set.type = CU_GRAPH_NODE_TYPE_MEMSET;
  set.memset = {memory, 0, 8, 4, 1, 1, nullptr};
  CUgraphNode first = nullptr;
  Must(cuGraphAddNode_v2(&first, graph, nullptr, nullptr, 0, &set));
  CUgraphNodeParams copy{};
  copy.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  CUDA_MEMCPY3D& shape = copy.memcpy.copyParams;
  shape.srcMemoryType = shape.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  shape.srcDevice = memory;
  shape.dstDevice = memory + 4;
  shape.WidthInBytes = 4;
  shape.Height = shape.Depth = 1;
  CUgraphNode second = nullptr;
  Must(cuGraphAddNode_v2(&second, graph, &first, nullptr, 1, &copy));
  LaunchAndWait(Instantiate(graph), NewStream());
  CHECK(ReadWord(memory + 4) == 8);
  // The calls of their own name their context.
  const CUDA_MEMSET_NODE_PARAMS named{memory, 0, 8, 4, 1, 1};
  CHECK(cuGraphAddMemsetNode(&first, graph, nullptr, 0, &named, nullptr) ==
        CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("a loop in a graph goes round while its condition holds") {
  const Device device;
  const CUdeviceptr left = device.Allocate(4);
  const CUdeviceptr sum = device.Allocate(4);
  const CUgraph graph = NewGraph();
  CUgraphConditionalHandle handle = 0;
  Must(cuGraphConditionalHandleCreate(&handle, graph, device.context(), 1,
                                      CU_GRAPH_COND_ASSIGN_DEFAULT));
  CHECK(TryInstantiate(graph) == CUDA_ERROR_INVALID_VALUE);  // no node decides on it
  const CUgraphNode start = AddSet(graph, left, 3);
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.handle = handle;
  parameters.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  parameters.conditional.size = 1;
  parameters.conditional.ctx = device.context();
  CUgraphNode loop = nullptr;
  Must(cuGraphAddNode_v2(&loop, graph, &start, nullptr, 1, &parameters));
  const CUgraph body = parameters.conditional.phGraph_out[0];
  std::uint64_t condition = handle;
  void* counter = reinterpret_cast<void*>(left);
  void* arguments[] = {&condition, &counter};
  const CUDA_KERNEL_NODE_PARAMS kernel = KernelOf(FunctionOf("count_down"), arguments);
  CUgraphNode in_body = nullptr;
  Must(cuGraphAddKernelNode_v2(&in_body, body, nullptr, 0, &kernel));
  AddCopy(body, sum, left, {in_body});
  const CUDA_HOST_NODE_PARAMS host{[](void*) {}, nullptr};
  CHECK(cuGraphAddHostNode(&in_body, body, nullptr, 0, &host) == CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec exec = Instantiate(graph);
  CHECK(TryInstantiate(graph) == CUDA_ERROR_INVALID_VALUE);  // one at a time
  CUgraph clone = nullptr;
  CHECK(cuGraphClone(&clone, graph) == CUDA_ERROR_INVALID_VALUE);
  Must(cuMemsetD32_v2(sum, 99, 1));
  Must(cuCtxSynchronize());
  LaunchAndWait(exec, NewStream());
  CHECK(ReadWord(left) == 0);
  CHECK(ReadWord(sum) == 0);
}

TEST_CASE("a loop whose body sets nothing goes round once: on a GPU a kernel would end it") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4);
  const CUgraph graph = NewGraph();
  CUgraphConditionalHandle handle = 0;
  Must(cuGraphConditionalHandleCreate(&handle, graph, device.context(), 1,
                                      CU_GRAPH_COND_ASSIGN_DEFAULT));
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.handle = handle;
  parameters.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  parameters.conditional.size = 1;
  parameters.conditional.ctx = device.context();
  CUgraphNode loop = nullptr;
  Must(cuGraphAddNode_v2(&loop, graph, nullptr, nullptr, 0, &parameters));
  AddSet(parameters.conditional.phGraph_out[0], memory, 5);
  LaunchAndWait(Instantiate(graph), NewStream());
  CHECK(ReadWord(memory) == 5);
}
#endif
