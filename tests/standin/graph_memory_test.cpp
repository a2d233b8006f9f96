// What the software driver promises of memory that graphs allocate: the rules of cuda.h for
// allocation and free nodes, and how much of the device it takes when.
#include <functional>
#include <thread>

#include "graph_test.h"

using namespace standin_test;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t Attribute(CUgraphMem_attribute attribute) {
  cuuint64_t value = 0;
  Must(cuDeviceGetGraphMemAttribute(0, attribute, &value));
  return value;
}

std::size_t Reserved() {
  return Attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
}

std::size_t Used() {
  return Attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT);
}

// Allocates, writes, and frees in the same graph.
struct SelfContained {
  explicit SelfContained(std::size_t bytes) : graph(NewGraph()) {
    CUgraphNode allocation = nullptr;
    address = AddAllocation(graph, bytes, &allocation);
    const CUgraphNode set = AddSet(graph, address, 1, {allocation});
    Must(TryAddFree(graph, address, {set}));
    exec = Instantiate(graph);
  }

  CUgraph graph;
  CUdeviceptr address = 0;
  CUgraphExec exec = nullptr;
};

// Allocates and leaves it allocated.
struct Unfreed {
  explicit Unfreed(std::size_t bytes, unsigned long long flags = 0) : graph(NewGraph()) {
    CUgraphNode allocation = nullptr;
    address = AddAllocation(graph, bytes, &allocation);
    AddSet(graph, address, 3, {allocation});
    exec = Instantiate(graph, flags);
  }

  CUgraph graph;
  CUdeviceptr address = 0;
  CUgraphExec exec = nullptr;
};

}  // namespace

TEST_CASE("a graph takes memory when it is launched, and keeps it until it is trimmed") {
  const Device device;
  const CUstream stream = NewStream();
  const SelfContained graph(8 * kMiB);
  CHECK(Reserved() == 0);
  CHECK(standin_live_bytes(0) == 0);
  LaunchAndWait(graph.exec, stream);
  CHECK(Reserved() == 8 * kMiB);
  CHECK(standin_live_bytes(0) == 8 * kMiB);
  LaunchAndWait(graph.exec, stream);
  CHECK(Reserved() == 8 * kMiB);
  Must(cuGraphExecDestroy(graph.exec));
  Must(cuGraphDestroy(graph.graph));
  CHECK(Used() == 0);
  CHECK(Reserved() == 8 * kMiB);
  Must(cuDeviceGraphMemTrim(0));
  CHECK(Reserved() == 0);
  CHECK(standin_live_bytes(0) == 0);
  CHECK(cuDeviceGraphMemTrim(17) == CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE("an upload takes a graph's memory without running it") {
  const Device device;
  const CUstream stream = NewStream();
  const Unfreed graph(4 * kMiB);
  Must(cuGraphUpload(graph.exec, stream));
  Must(cuStreamSynchronize(stream));
  CHECK(Reserved() == 4 * kMiB);
  CHECK(cuMemFree_v2(graph.address) == CUDA_ERROR_INVALID_VALUE);  // it is not allocated
  Must(cuDeviceGraphMemTrim(0));
  CHECK(Reserved() == 0);
}

TEST_CASE("graphs in one stream share memory, graphs that run at once do not") {
  const Device device;
  const CUstream first = NewStream();
  const CUstream second = NewStream();
  const SelfContained one(8 * kMiB);
  const SelfContained two(8 * kMiB);
  CHECK(one.address != two.address);
  standin_hold_stream(first);
  Must(cuGraphLaunch(one.exec, first));
  Must(cuGraphLaunch(two.exec, first));
  CHECK(Reserved() == 8 * kMiB);
  Must(cuGraphLaunch(one.exec, second));
  CHECK(Reserved() == 16 * kMiB);
  CHECK(Attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) == 16 * kMiB);
  Must(cuDeviceGraphMemTrim(0));  // not what runs
  CHECK(Reserved() == 16 * kMiB);
  standin_release_stream(first);
  Must(cuCtxSynchronize());
  Must(cuDeviceGraphMemTrim(0));
  CHECK(Reserved() == 0);
  CHECK(Attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) == 16 * kMiB);
  cuuint64_t value = 5;
  CHECK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &value) ==
        CUDA_ERROR_INVALID_VALUE);
  value = 0;
  CHECK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value) ==
        CUDA_ERROR_INVALID_VALUE);
  Must(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &value));
  Must(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &value));
  CHECK(Attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) == 0);
}

TEST_CASE("a graph that finds no memory waits for the memory of one that runs") {
  const Device device;
  const CUstream first = NewStream();
  const CUstream second = NewStream();
  const SelfContained one(40 * kMiB);
  const SelfContained two(40 * kMiB);
  standin_hold_stream(first);
  Must(cuGraphLaunch(one.exec, first));
  Must(cuGraphLaunch(two.exec, second));
  CHECK(cuStreamQuery(second) == CUDA_ERROR_NOT_READY);
  CHECK(standin_live_bytes(0) == 40 * kMiB);
  standin_release_stream(first);
  Must(cuStreamSynchronize(second));
}

TEST_CASE("a graph whose memory the device lacks is not launched") {
  const Device device;
  const CUdeviceptr taken = device.Allocate(40 * kMiB);
  const SelfContained graph(40 * kMiB);
  const CUstream stream = NewStream();
  CHECK(cuGraphLaunch(graph.exec, stream) == CUDA_ERROR_OUT_OF_MEMORY);
  Must(cuMemFree_v2(taken));
  LaunchAndWait(graph.exec, stream);
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = AllocationOf(1000 * kMiB);
  CHECK(cuGraphAddMemAllocNode(&node, NewGraph(), nullptr, 0, &parameters) ==
        CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_CASE("what a graph leaves allocated can be used and freed, and only then allocated again") {
  const Device device;
  const CUstream stream = NewStream();
  const Unfreed graph(kMiB);
  CHECK(cuMemFreeAsync(graph.address, stream) == CUDA_ERROR_INVALID_VALUE);
  for (const bool in_stream : {true, false}) {
    LaunchAndWait(graph.exec, stream);
    CHECK(ReadWord(graph.address) == 3);
    CHECK(cuGraphLaunch(graph.exec, stream) == CUDA_ERROR_INVALID_VALUE);
    Must(in_stream ? cuMemFreeAsync(graph.address, stream) : cuMemFree_v2(graph.address));
    CHECK(cuMemFreeAsync(graph.address, stream) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFree_v2(graph.address) == CUDA_ERROR_INVALID_VALUE);
  }
}

TEST_CASE("memory that is allocated outlives its graph") {
  const Device device;
  const CUstream stream = NewStream();
  const Unfreed graph(4 * kMiB);
  LaunchAndWait(graph.exec, stream);
  Must(cuGraphExecDestroy(graph.exec));
  Must(cuGraphDestroy(graph.graph));
  Must(cuDeviceGraphMemTrim(0));
  CHECK(Reserved() == 4 * kMiB);
  CHECK(ReadWord(graph.address) == 3);
  Must(cuMemFreeAsync(graph.address, stream));
  Must(cuStreamSynchronize(stream));
  CHECK(Reserved() == 4 * kMiB);
  Must(cuDeviceGraphMemTrim(0));
  CHECK(Reserved() == 0);
  CHECK(cuMemFree_v2(graph.address) != CUDA_SUCCESS);
}

TEST_CASE("with the flag for it, a launch frees what the one before left") {
  const Device device;
  const CUstream stream = NewStream();
  const Unfreed graph(kMiB, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  cuuint64_t flags = 0;
  Must(cuGraphExecGetFlags(graph.exec, &flags));
  CHECK(flags == CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  LaunchAndWait(graph.exec, stream);
  LaunchAndWait(graph.exec, stream);
  CHECK(Reserved() == kMiB);
  Must(cuMemFree_v2(graph.address));
}

TEST_CASE("another graph may free what a graph has allocated, when it is") {
  const Device device;
  const CUstream stream = NewStream();
  const Unfreed graph(kMiB);
  const CUgraph freeing = NewGraph();
  Must(TryAddFree(freeing, graph.address));
  CHECK(TryAddFree(freeing, graph.address) == CUDA_ERROR_INVALID_VALUE);  // twice in one graph
  CHECK(TryAddFree(graph.graph, graph.address) == CUDA_ERROR_INVALID_VALUE);
  const CUgraphExec free = Instantiate(freeing);
  CHECK(cuGraphLaunch(free, stream) == CUDA_ERROR_INVALID_VALUE);  // there is nothing to free
  Must(cuGraphLaunch(graph.exec, stream));
  Must(cuGraphLaunch(free, stream));
  CHECK(cuGraphLaunch(free, stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree_v2(graph.address) == CUDA_ERROR_INVALID_VALUE);
  Must(cuGraphLaunch(graph.exec, stream));
  Must(cuGraphLaunch(free, stream));
  Must(cuStreamSynchronize(stream));
}

TEST_CASE("what a graph frees itself, nobody else may free") {
  const Device device;
  const CUstream stream = NewStream();
  const SelfContained graph(kMiB);
  CHECK(TryAddFree(graph.graph, graph.address) == CUDA_ERROR_INVALID_VALUE);
  CHECK(TryAddFree(NewGraph(), graph.address) == CUDA_ERROR_INVALID_VALUE);
  LaunchAndWait(graph.exec, stream);
  CHECK(cuMemFree_v2(graph.address) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeAsync(graph.address, stream) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("free nodes take the address of an allocation node, and come after it") {
  const Device device;
  const CUdeviceptr plain = device.Allocate(4096);
  const CUgraph graph = NewGraph();
  const CUdeviceptr address = AddAllocation(graph, kMiB);
  CHECK(TryAddFree(graph, plain) == CUDA_ERROR_INVALID_VALUE);
  CHECK(TryAddFree(graph, address + 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(TryAddFree(graph, 0) == CUDA_ERROR_INVALID_VALUE);
  Must(TryAddFree(graph, address));  // behind nothing
  CHECK(TryInstantiate(graph) == CUDA_ERROR_INVALID_VALUE);
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = AllocationOf(0);
  CUgraphNode node = nullptr;
  CHECK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters) == CUDA_ERROR_INVALID_VALUE);
  parameters = AllocationOf(512);
  parameters.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CHECK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters) == CUDA_ERROR_INVALID_VALUE);
  parameters = AllocationOf(512);
  parameters.accessDescCount = 100;
  CHECK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a graph with memory nodes is neither cloned nor cut nor instantiated twice") {
  const Device device;
  const SelfContained graph(kMiB);
  const Nodes nodes = NodesOf(graph.graph);
  CUgraph clone = nullptr;
  CUgraphNode node = nullptr;
  CHECK(TryInstantiate(graph.graph) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphClone(&clone, graph.graph) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphDestroyNode(nodes[1]) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphRemoveDependencies(graph.graph, &nodes[0], &nodes[1], 1) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphAddChildGraphNode(&node, NewGraph(), nullptr, 0, graph.graph) ==
        CUDA_ERROR_INVALID_VALUE);
  Must(cuGraphExecDestroy(graph.exec));
  Must(TryInstantiate(graph.graph));
}

#if CUDA_VERSION >= 12090
TEST_CASE("a child graph that is moved is the parent's, with its memory") {
  const Device device;
  const CUgraph child = NewGraph();
  CUgraphNode allocation = nullptr;
  const CUdeviceptr address = AddAllocation(child, kMiB, &allocation);
  AddSet(child, address, 12, {allocation});
  const CUgraph parent = NewGraph();
  CUgraphNodeParams parameters{};
  parameters.type = CU_GRAPH_NODE_TYPE_GRAPH;
  parameters.graph = {child, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE};
  CUgraphNode node = nullptr;
  Must(cuGraphAddNode_v2(&node, parent, nullptr, nullptr, 0, &parameters));
  CHECK(cuGraphDestroy(child) == CUDA_ERROR_INVALID_VALUE);
  CHECK(TryInstantiate(child) == CUDA_ERROR_INVALID_VALUE);
  CHECK(TryAddFree(child, address) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphAddNode_v2(&node, NewGraph(), nullptr, nullptr, 0, &parameters) ==
        CUDA_ERROR_INVALID_VALUE);
  LaunchAndWait(Instantiate(parent), NewStream());
  CHECK(ReadWord(address) == 12);
  Must(cuMemFree_v2(address));
}
#endif

TEST_CASE("a graph's memory goes with its context") {
  const Device device;
  CUcontext context = nullptr;
  Must(cuCtxCreate_v2(&context, 0, 0));
  const Unfreed graph(8 * kMiB);
  LaunchAndWait(graph.exec, NewStream());
  Must(cuCtxDestroy_v2(context));
  CHECK(Reserved() == 0);
  CHECK(standin_live_bytes(0) == 0);
  CHECK(cuGraphLaunch(graph.exec, NewStream()) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory of a graph may be the host's, or managed: it counts on no device") {
  const Device device;
  const CUstream stream = NewStream();
  for (const bool managed : {false, true}) {
    const CUgraph graph = NewGraph();
    CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
    allocation.poolProps.allocType =
        managed ? CU_MEM_ALLOCATION_TYPE_MANAGED : CU_MEM_ALLOCATION_TYPE_PINNED;
    allocation.poolProps.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
    allocation.bytesize = 4 * kMiB;
    CUgraphNode node = nullptr;
    Must(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation));
    AddSet(graph, allocation.dptr, 7, {node});
    const CUgraphExec exec = Instantiate(graph);
    LaunchAndWait(exec, stream);
    CHECK(*reinterpret_cast<unsigned*>(allocation.dptr) == 7);
    unsigned is_managed = 2;
    unsigned type = 0;
    Must(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, allocation.dptr));
    Must(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, allocation.dptr));
    CHECK(is_managed == unsigned{managed});
    CHECK(type == unsigned{managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST});
    CHECK(Used() == 0);
    CHECK(standin_live_bytes(0) == 0);
    CHECK(cuGraphLaunch(exec, stream) == CUDA_ERROR_INVALID_VALUE);  // it is allocated
    Must(cuMemFreeAsync(allocation.dptr, stream));
    LaunchAndWait(exec, stream);
    Must(cuMemFree_v2(allocation.dptr));
    Must(cuGraphExecDestroy(exec));
    Must(cuGraphDestroy(graph));
    Must(cuDeviceGraphMemTrim(0));
  }
}
