// What graphs allocate by nodes of their own, under a limit of 64 MiB of a device of 256 MiB.
#include <atomic>
#include <thread>

#include "shim/device/devices.h"
#include "shim/test_context.h"

using namespace cubfc::test;

namespace {

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kLimit = 64 * kMiB;

// With one allocation, which the graph itself frees or not. Not launched.
class Graph {
 public:
  enum class Frees : bool { kNot, kItself };
  explicit Graph(std::size_t bytes, Frees frees = Frees::kItself, unsigned long long flags = 0) {
    CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
    allocation.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    allocation.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    allocation.bytesize = bytes;
    CUgraphNode node = nullptr;
    CUgraphNode free = nullptr;
    must(cuGraphCreate(&graph_, 0));
    must(cuGraphAddMemAllocNode(&node, graph_, nullptr, 0, &allocation));
    address = allocation.dptr;
    if (frees == Frees::kItself) {
      must(cuGraphAddMemFreeNode(&free, graph_, &node, 1, address));
    }
    must(cuGraphInstantiateWithFlags(&exec, graph_, flags));
  }
  ~Graph() {
    if (exec != nullptr) {
      must(cuGraphExecDestroy(exec));
    }
    must(cuGraphDestroy(graph_));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  CUresult launch(CUstream stream = nullptr) const { return cuGraphLaunch(exec, stream); }

  CUgraphExec exec = nullptr;
  CUdeviceptr address = 0;

 private:
  CUgraph graph_ = nullptr;
};

struct Context : TestContext {
  ~Context() {
    cuCtxSynchronize();
    cuDeviceGraphMemTrim(0);
  }
};

}  // namespace

TEST_CASE("a graph that needs more than the limit has is refused when it is launched") {
  const Context context;
  const Graph too_large(kLimit + 2 * kMiB);
  CHECK(too_large.launch() == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuGraphUpload(too_large.exec, nullptr) == CUDA_ERROR_OUT_OF_MEMORY);
  const Graph whole(kLimit);
  CHECK(whole.launch() == CUDA_SUCCESS);
  must(cuCtxSynchronize());
  CHECK(standin_peak_bytes(0) <= kLimit);
}

TEST_CASE("graphs get what the limit has, and no more, however many there are") {
  const Context context;
  const std::size_t before = standin_live_bytes(0);
  std::vector<std::unique_ptr<Graph>> graphs;
  CUresult result = CUDA_SUCCESS;
  while (result == CUDA_SUCCESS) {
    graphs.push_back(std::make_unique<Graph>(4 * kMiB, Graph::Frees::kNot));
    result = graphs.size() % 2 == 0 ? graphs.back()->launch()
                                    : cuGraphUpload(graphs.back()->exec, nullptr);
    if (result == CUDA_SUCCESS && graphs.size() % 2 == 1) {
      result = graphs.back()->launch();
    }
  }
  CHECK(result == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(graphs.size() == kLimit / (4 * kMiB) + 1);
  CUdeviceptr block = 0;
  CHECK(cuMemAlloc(&block, 4 * kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(standin_live_bytes(0) <= kLimit);
  graphs.pop_back();
  for (const auto& graph : graphs) {
    must(cuMemFree(graph->address));
  }
  graphs.clear();
  must(cuMemFree(allocate(40 * kMiB)));
  must(cuCtxSynchronize());
  must(cuDeviceGraphMemTrim(0));
  CHECK(standin_live_bytes(0) <= std::max(before, kLimit));
}

TEST_CASE("many graphs that are launched in turn share what the limit has") {
  const Context context;
  std::vector<std::unique_ptr<Graph>> graphs;
  for (int i = 0; i < 20; ++i) {
    graphs.push_back(std::make_unique<Graph>(40 * kMiB));
  }
  for (int round = 0; round < 3; ++round) {
    for (const auto& graph : graphs) {
      CHECK(graph->launch() == CUDA_SUCCESS);
      if (round == 1) {
        must(cuCtxSynchronize());
      }
    }
  }
  must(cuCtxSynchronize());
  CHECK(standin_peak_bytes(0) <= kLimit);
}

TEST_CASE("a graph that has its memory is launched again at once, whatever else has the limit") {
  const Context context;
  const Graph first(24 * kMiB);
  const Graph second(24 * kMiB);
  must(first.launch());
  must(cuCtxSynchronize());
  {
    const HeldStream held;
    must(first.launch(held.stream));
    must(second.launch());
    must(cuStreamSynchronize(nullptr));
    const std::uint64_t reserved = standin_live_bytes(0);
    for (int i = 0; i < 5; ++i) {  // the first runs still, and nothing waits for it
      CHECK(first.launch(held.stream) == CUDA_SUCCESS);
      CHECK(second.launch() == CUDA_SUCCESS);
    }
    CHECK(standin_live_bytes(0) == reserved);
  }
  must(cuCtxSynchronize());
}

TEST_CASE("what was trimmed and went elsewhere is claimed again") {
  const Context context;
  const Graph graph(40 * kMiB);
  must(graph.launch());
  must(cuCtxSynchronize());
  must(cuDeviceGraphMemTrim(0));
  const CUdeviceptr block = allocate(40 * kMiB);
  CHECK(graph.launch() == CUDA_ERROR_OUT_OF_MEMORY);
  must(cuMemFree(block));
  CHECK(graph.launch() == CUDA_SUCCESS);
  must(cuCtxSynchronize());
  CHECK(standin_live_bytes(0) <= kLimit);
}

TEST_CASE("idle memory of an arena goes back for a graph") {
  const Context context;
  must(cuMemFree(allocate(50 * kMiB)));
  must(cuCtxSynchronize());
  const Graph graph(50 * kMiB);
  CHECK(graph.launch() == CUDA_SUCCESS);
  must(cuCtxSynchronize());
}

TEST_CASE("a graph that frees at its next launch what it allocated is launched again and again") {
  const Context context;
  const Graph graph(40 * kMiB, Graph::Frees::kNot, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  for (int i = 0; i < 5; ++i) {
    CHECK(graph.launch() == CUDA_SUCCESS);
  }
  must(cuCtxSynchronize());
  CHECK(standin_live_bytes(0) <= kLimit);
  must(cuMemFree(graph.address));
}

TEST_CASE("what instantiates a graph and uploads it at once is refused, too") {
  const Context context;
  const CUdeviceptr block = allocate(40 * kMiB);
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
  allocation.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocation.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  allocation.bytesize = 40 * kMiB;
  must(cuGraphCreate(&graph, 0));
  must(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation));
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  parameters.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  CHECK(cuGraphInstantiateWithParams(&exec, graph, &parameters) == CUDA_ERROR_OUT_OF_MEMORY);
  must(cuMemFree(block));
  CHECK(cuGraphInstantiateWithParams(&exec, graph, &parameters) == CUDA_SUCCESS);
  must(cuGraphLaunch(exec, nullptr));
  must(cuCtxSynchronize());
  CHECK(standin_live_bytes(0) <= kLimit);
  must(cuMemFree(allocation.dptr));
  must(cuGraphExecDestroy(exec));
  must(cuGraphDestroy(graph));
}

TEST_CASE("a handle that another graph has had means the new one") {
  const Context context;
  for (int i = 0; i < 4; ++i) {  // one that allocates, and one that does not, by turns
    const Graph large(kLimit + 2 * kMiB);
    CHECK(large.launch() == CUDA_ERROR_OUT_OF_MEMORY);
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    must(cuGraphExecDestroy(large.exec));
    must(cuGraphCreate(&graph, 0));
    must(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, nullptr) == CUDA_SUCCESS);
    must(cuCtxSynchronize());
    must(cuGraphExecDestroy(exec));
    must(cuGraphDestroy(graph));
    const_cast<Graph&>(large).exec = nullptr;
  }
}

TEST_CASE("graphs that share memory in a stream's order wait for nothing, and none is refused") {
  const Context context;
  const Graph first(40 * kMiB);
  const Graph second(40 * kMiB);
  const HeldStream held;
  for (int i = 0; i < 4; ++i) {  // nothing of this has run when the last is launched
    CHECK(first.launch(held.stream) == CUDA_SUCCESS);
    CHECK(second.launch(held.stream) == CUDA_SUCCESS);
  }
  standin_release_stream(held.stream);
  must(cuStreamSynchronize(held.stream));
  CHECK(standin_live_bytes(0) <= kLimit);
}

TEST_CASE("allocations that graphs leave behind add up until they are freed") {
  const Context context;
  const Graph first(24 * kMiB, Graph::Frees::kNot);
  const Graph second(24 * kMiB, Graph::Frees::kNot);
  const Graph third(24 * kMiB, Graph::Frees::kNot);
  for (int i = 0; i < 3; ++i) {
    must(first.launch());
    must(second.launch());
    CHECK(third.launch() == CUDA_ERROR_OUT_OF_MEMORY);
    must(cuMemFreeAsync(first.address, nullptr));
    must(third.launch());
    CHECK(first.launch() == CUDA_ERROR_OUT_OF_MEMORY);
    must(cuMemFree(second.address));
    must(cuMemFree(third.address));
    must(cuCtxSynchronize());
    if (i == 1) {
      must(cuDeviceGraphMemTrim(0));  // what is reserved says nothing then
    }
  }
}

TEST_CASE("what a graph leaves behind goes with its context") {
  for (int round = 0; round < 3; ++round) {
    const Context context;
    const Graph stays(40 * kMiB, Graph::Frees::kNot);
    CHECK(stays.launch() == CUDA_SUCCESS);
    must(cuCtxSynchronize());
  }
}

TEST_CASE("an upload at instantiation gets idle memory, too") {
  const Context context;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  must(cuMemFree(allocate(30 * kMiB)));
  must(cuCtxSynchronize());
  must(cuGraphCreate(&graph, 0));
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  parameters.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
  standin_fail("cuGraphInstantiateWithParams", CUDA_ERROR_OUT_OF_MEMORY, 0, 1);
  CHECK(cuGraphInstantiateWithParams(&exec, graph, &parameters) == CUDA_SUCCESS);
  standin_fail("cuGraphInstantiateWithParams", CUDA_SUCCESS, 0, 0);
  must(cuGraphExecDestroy(exec));
  must(cuGraphDestroy(graph));
}

TEST_CASE("threads that launch graphs at the same time are served, and what they have counts") {
  const Context context;
  std::atomic<int> launched{0};
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<Graph>> graphs;
  for (int i = 0; i < 8; ++i) {
    graphs.push_back(std::make_unique<Graph>(12 * kMiB, Graph::Frees::kNot));
  }
  for (const auto& graph : graphs) {
    threads.emplace_back([&, each = graph.get()] {
      cuCtxSetCurrent(context.handle);
      launched += each->launch() == CUDA_SUCCESS ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  must(cuCtxSynchronize());
  CHECK(launched >= 5);
  CHECK(Graph(8 * kMiB).launch() == CUDA_ERROR_OUT_OF_MEMORY);
  for (const auto& graph : graphs) {
    cuMemFree(graph->address);
  }
}

TEST_CASE(
    "whatever of the driver's fails, a launch answers as the driver does, and nothing is lost") {
  const Context context;
  for (const char* function : {"cuGraphGetNodes", "cuGraphNodeGetType",
                               "cuGraphMemAllocNodeGetParams", "cuDeviceGetGraphMemAttribute"}) {
    INFO(function);
    standin_fail(function, CUDA_ERROR_UNKNOWN, 0, UINT64_MAX);
    {
      const Graph graph(8 * kMiB);
      CHECK(graph.launch() == CUDA_SUCCESS);
      must(cuCtxSynchronize());
    }
    standin_fail(function, CUDA_SUCCESS, 0, 0);
  }
  const Graph graph(8 * kMiB);
  standin_fail("cuGraphLaunch", CUDA_ERROR_LAUNCH_FAILED, 0, 1);
  CHECK(graph.launch() == CUDA_ERROR_LAUNCH_FAILED);
  CHECK(graph.launch() == CUDA_SUCCESS);
  must(cuCtxSynchronize());
  must(cuDeviceGraphMemTrim(0));
  cubfc::Device& device = *cubfc::Process::active()->contexts().devices().get(0);
  device.limit.pools.refresh();
  must(cuMemFree(allocate(kLimit - 4 * kMiB)));
}
