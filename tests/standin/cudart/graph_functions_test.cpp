// What the runtime promises of graphs as a whole.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <string>

#include "runtime_test.h"

using namespace cudart_test;

TEST_CASE("memory of a graph is taken and given back by its nodes, which tell of it") {
  const Runtime runtime;
  cudaGraph_t graph = NewGraph();
  Nodes nodes(2);
  cudaMemAllocNodeParams asked{};
  asked.poolProps.allocType = cudaMemAllocationTypePinned;
  asked.poolProps.location = {cudaMemLocationTypeDevice, 0};
  asked.bytesize = 1 << 20;
  Must(cudaGraphAddMemAllocNode(&nodes[0], graph, nullptr, 0, &asked));
  Must(cudaGraphAddMemFreeNode(&nodes[1], graph, nodes.data(), 1, asked.dptr));
  cudaMemAllocNodeParams told{};
  void* freed = nullptr;
  Must(cudaGraphMemAllocNodeGetParams(nodes[0], &told));
  Must(cudaGraphMemFreeNodeGetParams(nodes[1], &freed));
  CHECK(told.dptr == asked.dptr);
  CHECK(told.bytesize == 1 << 20);
  CHECK(freed == asked.dptr);
  cudaGraphExec_t exec = Instantiated(graph);
  Run(exec);
  std::uint64_t used = 0;
  Must(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &used));
  CHECK(used >= 1 << 20);
  Must(cudaGraphExecDestroy(exec));
  Must(cudaDeviceGraphMemTrim(0));
  Must(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  CHECK(used == 0);
  Must(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &used));
  Must(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &used));
  CHECK(used == 0);
}

TEST_CASE("a graph's edges are told, added and removed, and a clone has its nodes") {
  const Runtime runtime;
  cudaGraph_t graph = NewGraph();
  cudaGraph_t clone = nullptr;
  Nodes nodes(3);
  for (cudaGraphNode_t& node : nodes) Must(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
  const Nodes from = {nodes[0], nodes[1]};
  const Nodes to = {nodes[1], nodes[2]};
  Must(cudaGraphAddDependencies(graph, from.data(), to.data(), nullptr, 2));
  std::size_t count = 0;
  Must(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  CHECK(count == 2);
  Nodes roots(3);
  count = 3;
  Must(cudaGraphGetRootNodes(graph, roots.data(), &count));
  CHECK(count == 1);
  CHECK(roots[0] == nodes[0]);
  Nodes after(1);
  cudaGraphEdgeData edge{};
  count = 1;
  Must(cudaGraphNodeGetDependentNodes(nodes[1], after.data(), &edge, &count));
  CHECK(after[0] == nodes[2]);
  Must(cudaGraphNodeGetDependencies(nodes[1], after.data(), &edge, &count));
  CHECK(after[0] == nodes[0]);

  Must(cudaGraphClone(&clone, graph));
  cudaGraphNode_t found = nullptr;
  Must(cudaGraphNodeFindInClone(&found, nodes[1], clone));
  CHECK(found != nodes[1]);
  Must(cudaGraphRemoveDependencies(graph, from.data(), to.data(), nullptr, 1));
  Must(cudaGraphDestroyNode(nodes[2]));
  Must(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  CHECK(count == 0);
  Must(cudaGraphGetEdges(clone, nullptr, nullptr, nullptr, &count));
  CHECK(count == 2);
  Must(cudaGraphDestroy(clone));
}

TEST_CASE("what runs is made with parameters, and changed to another graph's") {
  const Runtime runtime;
  void* const memory = Allocated(32);
  const FillNode one(memory, 1);
  const FillNode two(memory, 2);
  cudaGraph_t graph = NewGraph();
  cudaGraph_t other = NewGraph();
  cudaGraph_t different = NewGraph();
  cudaGraphNode_t node = nullptr;
  Must(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &one.parameters));
  Must(cudaGraphAddKernelNode(&node, other, nullptr, 0, &two.parameters));
  Must(cudaGraphAddEmptyNode(&node, different, nullptr, 0));
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiateParams parameters{};
  parameters.flags = cudaGraphInstantiateFlagAutoFreeOnLaunch;
  Must(cudaGraphInstantiateWithParams(&exec, graph, &parameters));
  CHECK(parameters.result_out == cudaGraphInstantiateSuccess);
  unsigned long long flags = 0;
  Must(cudaGraphExecGetFlags(exec, &flags));
  CHECK(flags == cudaGraphInstantiateFlagAutoFreeOnLaunch);
  cudaGraphExecUpdateResultInfo result{};
  Must(cudaGraphExecUpdate(exec, other, &result));
  CHECK(result.result == cudaGraphExecUpdateSuccess);
  Must(cudaGraphUpload(exec, nullptr));
  Run(exec);
  CHECK(Read<unsigned>(memory, 8) == Words(2));
  CHECK(cudaGraphExecUpdate(exec, different, &result) == cudaErrorGraphExecUpdateFailure);
  CHECK(result.result != cudaGraphExecUpdateSuccess);
}

TEST_CASE("a user's object lives until the last who holds it lets go") {
  const Runtime runtime;
  std::atomic<bool> destroyed = false;
  const auto destroy = [](void* object) {
    auto* const flag = static_cast<std::atomic<bool>*>(object);
    *flag = true;
    flag->notify_one();
  };
  cudaUserObject_t object = nullptr;
  cudaGraph_t graph = NewGraph();
  Must(cudaUserObjectCreate(&object, &destroyed, destroy, 1, cudaUserObjectNoDestructorSync));
  Must(cudaUserObjectRetain(object, 1));
  Must(cudaGraphRetainUserObject(graph, object, 1, 0));
  Must(cudaUserObjectRelease(object, 2));
  CHECK(!destroyed);
  Must(cudaGraphReleaseUserObject(graph, object, 1));
  destroyed.wait(false);  // the driver calls it from a thread of its own
  CHECK(cudaUserObjectRelease(object, 1) != cudaSuccess);
}

TEST_CASE("a graph is drawn") {
  const Runtime runtime;
  cudaGraph_t graph = NewGraph();
  cudaGraphNode_t node = nullptr;
  Must(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
  const std::string path = "/tmp/cudart-test-" + std::to_string(getpid()) + ".dot";
  Must(cudaGraphDebugDotPrint(graph, path.c_str(), 0));
  std::stringstream drawing;
  drawing << std::ifstream(path).rdbuf();
  unlink(path.c_str());
  CHECK(drawing.str().find("digraph") != std::string::npos);
}
