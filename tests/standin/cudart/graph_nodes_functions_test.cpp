// What the runtime promises of graphs' nodes.
#include "runtime_test.h"

using namespace cudart_test;

namespace {

cudaGraphNodeType TypeOf(cudaGraphNode_t node) {
  cudaGraphNodeType type{};
  Must(cudaGraphNodeGetType(node, &type));
  return type;
}

}  // namespace

TEST_CASE("a kernel's node is told by the function that the program has of it") {
  const Runtime runtime;
  void* const memory = Allocated(32);
  cudaGraph_t graph = NewGraph();
  cudaGraphNode_t node = nullptr;
  const FillNode one(memory, 1);
  const FillNode two(memory, 2);
  const FillNode three(memory, 3);
  Must(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &one.parameters));
  CHECK(TypeOf(node) == cudaGraphNodeTypeKernel);
  cudaKernelNodeParams found{};
  Must(cudaGraphKernelNodeGetParams(node, &found));
  CHECK(found.func == FillKernel());
  CHECK(found.blockDim.x == 32);
  Must(cudaGraphKernelNodeSetParams(node, &two.parameters));
  cudaGraphExec_t exec = Instantiated(graph);
  Run(exec);
  CHECK(Read<unsigned>(memory, 8) == Words(2));
  Must(cudaGraphExecKernelNodeSetParams(exec, node, &three.parameters));
  Run(exec);
  CHECK(Read<unsigned>(memory, 8) == Words(3));

  cudaKernelNodeAttrValue value{};
  cudaKernelNodeAttrValue told{};
  value.priority = -1;
  Must(cudaGraphKernelNodeSetAttribute(node, cudaKernelNodeAttributePriority, &value));
  cudaGraphNode_t other = nullptr;
  Must(cudaGraphAddKernelNode(&other, graph, &node, 1, &one.parameters));
  Must(cudaGraphKernelNodeCopyAttributes(other, node));
  Must(cudaGraphKernelNodeGetAttribute(other, cudaKernelNodeAttributePriority, &told));
  CHECK(told.priority == -1);

  cudaKernelNodeParams unknown = one.parameters;
  unknown.func = &told;
  CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &unknown) ==
        cudaErrorInvalidDeviceFunction);
  CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("a captured launch is told by the function that the program has of it") {
  const Runtime runtime;
  cudaStream_t stream = nullptr;
  Must(cudaStreamCreate(&stream));
  FillNode fill(Allocated(32), 1);
  cudaGraph_t graph = NewGraph();
  Must(cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0,
                                     cudaStreamCaptureModeGlobal));
  Must(cudaLaunchKernel(FillKernel(), dim3{1, 1, 1}, dim3{8, 1, 1}, fill.arguments, 0, stream));
  Must(cudaStreamEndCapture(stream, &graph));
  Nodes nodes(1);
  std::size_t count = 1;
  Must(cudaGraphGetNodes(graph, nodes.data(), &count));
  cudaKernelNodeParams found{};
  Must(cudaGraphKernelNodeGetParams(nodes[0], &found));
  CHECK(found.func == FillKernel());
}

TEST_CASE("nodes copy bytes, boxes, and variables") {
  const Runtime runtime;
  void* const memory = Allocated(64);
  Bytes from = Counted(16);
  int read[4] = {};
  cudaGraph_t graph = NewGraph();
  Nodes nodes(4);
  cudaMemcpy3DParms box{};
  box.srcPtr = {from.data(), 4, 4, 4};
  box.dstPtr = {static_cast<char*>(memory) + 32, 8, 8, 4};
  box.extent = {4, 2, 1};
  box.kind = cudaMemcpyHostToDevice;
  Must(cudaGraphAddMemcpyNode1D(&nodes[0], graph, nullptr, 0, memory, from.data(), 16,
                                cudaMemcpyHostToDevice));
  Must(cudaGraphAddMemcpyNode(&nodes[1], graph, &nodes[0], 1, &box));
  Must(cudaGraphAddMemcpyNodeToSymbol(&nodes[2], graph, &nodes[1], 1, variable_on_host, memory, 8,
                                      4, cudaMemcpyDeviceToDevice));
  Must(cudaGraphAddMemcpyNodeFromSymbol(&nodes[3], graph, &nodes[2], 1, read, variable_on_host, 16,
                                        0, cudaMemcpyDeviceToHost));
  cudaGraphExec_t exec = Instantiated(graph);
  Run(exec);
  CHECK(Read(memory, 16) == from);
  CHECK(Read(static_cast<char*>(memory) + 32, 12) == Bytes{1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8});
  CHECK(read[0] == 0);
  CHECK(read[1] == 0x04030201);
  CHECK(read[2] == 0x08070605);

  cudaMemcpy3DParms found{};
  Must(cudaGraphMemcpyNodeGetParams(nodes[1], &found));
  CHECK(found.srcPtr.ptr == from.data());
  CHECK(found.dstPtr.pitch == 8);
  CHECK(found.extent.width == 4);
  CHECK(found.extent.height == 2);

  Bytes others = Counted(32);
  Must(cudaGraphExecMemcpyNodeSetParams1D(exec, nodes[0], memory, others.data() + 16, 16,
                                          cudaMemcpyHostToDevice));
  Must(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, nodes[2], variable_on_host, memory, 4, 0,
                                                cudaMemcpyDeviceToDevice));
  Run(exec);
  CHECK(Read(memory, 2) == Bytes{17, 18});
  CHECK(read[0] == 0x14131211);
  Must(cudaGraphMemcpyNodeSetParams(nodes[0], &box));
  Must(cudaGraphMemcpyNodeSetParamsFromSymbol(nodes[3], read, variable_on_host, 4, 4,
                                              cudaMemcpyDeviceToHost));
  CHECK(cudaGraphMemcpyNodeSetParamsToSymbol(nodes[2], variable_on_host, memory, 16, 4,
                                             cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
  CHECK(cudaGraphAddMemcpyNodeToSymbol(&nodes[2], graph, nullptr, 0, &others, memory, 4, 0,
                                       cudaMemcpyDeviceToDevice) == cudaErrorInvalidSymbol);
}

TEST_CASE("nodes set memory, call the host, record and wait for events, and hold graphs") {
  const Runtime runtime;
  void* const memory = Allocated(32);
  cudaGraph_t graph = NewGraph();
  cudaGraph_t child = NewGraph();
  cudaEvent_t event = nullptr;
  cudaEvent_t other = nullptr;
  Must(cudaEventCreate(&event));
  Must(cudaEventCreate(&other));
  int calls = 0;
  int other_calls = 0;
  Nodes nodes(6);
  cudaHostNodeParams host{Count, &calls};
  cudaMemsetParams set{memory, 0, 5, 4, 8, 1};
  Must(cudaGraphAddHostNode(&nodes[0], child, nullptr, 0, &host));
  Must(cudaGraphAddChildGraphNode(&nodes[1], graph, nullptr, 0, child));
  Must(cudaGraphAddMemsetNode(&nodes[2], graph, &nodes[1], 1, &set));
  Must(cudaGraphAddEventRecordNode(&nodes[3], graph, &nodes[2], 1, event));
  Must(cudaGraphAddEventWaitNode(&nodes[4], graph, &nodes[3], 1, event));
  Must(cudaGraphAddEmptyNode(&nodes[5], graph, &nodes[4], 1));
  CHECK(TypeOf(nodes[5]) == cudaGraphNodeTypeEmpty);
  cudaGraphExec_t exec = Instantiated(graph);
  Run(exec);
  CHECK(calls == 1);
  CHECK(Read<unsigned>(memory, 8) == Words(5));
  CHECK(cudaEventQuery(event) == cudaSuccess);

  cudaEvent_t told = nullptr;
  cudaMemsetParams told_set{};
  cudaGraph_t inside = nullptr;
  Must(cudaGraphEventRecordNodeGetEvent(nodes[3], &told));
  CHECK(told == event);
  Must(cudaGraphEventWaitNodeSetEvent(nodes[4], other));
  Must(cudaGraphEventWaitNodeGetEvent(nodes[4], &told));
  CHECK(told == other);
  Must(cudaGraphMemsetNodeGetParams(nodes[2], &told_set));
  CHECK(told_set.dst == memory);
  CHECK(told_set.value == 5);
  Must(cudaGraphChildGraphNodeGetGraph(nodes[1], &inside));
  Nodes within(1);
  std::size_t count = 1;
  Must(cudaGraphGetNodes(inside, within.data(), &count));
  cudaHostNodeParams told_host{};
  Must(cudaGraphHostNodeGetParams(within[0], &told_host));
  CHECK(told_host.userData == &calls);

  set.value = 6;
  Must(cudaGraphExecMemsetNodeSetParams(exec, nodes[2], &set));
  Must(cudaGraphExecEventRecordNodeSetEvent(exec, nodes[3], other));
  unsigned enabled = 0;
  Run(exec);
  CHECK(Read<unsigned>(memory, 8) == Words(6));
  Must(cudaGraphNodeGetEnabled(exec, nodes[2], &enabled));
  CHECK(enabled == 1);
  set.value = 7;
  Must(cudaGraphExecMemsetNodeSetParams(exec, nodes[2], &set));
  Must(cudaGraphNodeSetEnabled(exec, nodes[2], 0));
  Run(exec);
  CHECK(Read<unsigned>(memory, 8) == Words(6));
  host.userData = &other_calls;
  Must(cudaGraphHostNodeSetParams(nodes[0], &host));
  Must(cudaGraphExecChildGraphNodeSetParams(exec, nodes[1], child));
  Run(exec);
  CHECK(other_calls == 1);
}

TEST_CASE("nodes of every type are made by their one description") {
  const Runtime runtime;
  cudaGraph_t graph = NewGraph();
  cudaGraphNode_t last = nullptr;
  int calls = 0;
  const auto add = [&](cudaGraphNodeParams& parameters) {
    const cudaGraphNode_t before = last;
    Must(cudaGraphAddNode(&last, graph, &before, nullptr, before ? 1 : 0, &parameters));
    CHECK(TypeOf(last) == parameters.type);
    return last;
  };
  cudaGraphNodeParams allocation{};
  allocation.type = cudaGraphNodeTypeMemAlloc;
  allocation.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
  allocation.alloc.poolProps.location = {cudaMemLocationTypeDevice, 0};
  allocation.alloc.bytesize = 4096;
  add(allocation);
  void* const memory = allocation.alloc.dptr;
  REQUIRE(memory != nullptr);
  FillNode fill(memory, 9);
  std::vector<unsigned> read(8);

  cudaGraphNodeParams node{};
  node.type = cudaGraphNodeTypeMemset;
  node.memset = {memory, 0, 1, 1, 4096, 1};
  add(node);
  node = {};
  node.type = cudaGraphNodeTypeKernel;
  node.kernel.func = const_cast<void*>(FillKernel());
  node.kernel.gridDim = {1, 1, 1};
  node.kernel.blockDim = {4, 1, 1};  // half of the words
  node.kernel.kernelParams = fill.arguments;
  const cudaGraphNodeParams kernel = node;
  const cudaGraphNode_t kernel_node = add(node);
  node = {};
  node.type = cudaGraphNodeTypeMemcpy;
  node.memcpy.copyParams.srcPtr = {memory, 32, 32, 1};
  node.memcpy.copyParams.dstPtr = {read.data(), 32, 32, 1};
  node.memcpy.copyParams.extent = {32, 1, 1};
  node.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
  add(node);
  node = {};
  node.type = cudaGraphNodeTypeHost;
  node.host = {Count, &calls};
  add(node);
  node = {};
  node.type = cudaGraphNodeTypeMemFree;
  node.free.dptr = memory;
  add(node);

  cudaGraphExec_t exec = Instantiated(graph);
  Run(exec);
  CHECK(read == std::vector<unsigned>{9, 9, 9, 9, 0x01010101, 0x01010101, 0x01010101, 0x01010101});
  CHECK(calls == 1);
  node = kernel;
  node.kernel.blockDim = {8, 1, 1};
  Must(cudaGraphExecNodeSetParams(exec, kernel_node, &node));
  Run(exec);
  CHECK(read == Words(9));
  fill.value = 8;
  Must(cudaGraphNodeSetParams(kernel_node, &node));
  CHECK(cudaGraphNodeSetParams(kernel_node, nullptr) == cudaErrorInvalidValue);
}
