// STANDIN_WORK=asked: what is queued begins only once a call asks for its end.
#include <cuda.h>

#include <atomic>

#include "catch.h"
#include "test_device.h"

using standin_test::Device;

namespace {

[[maybe_unused]] const int configured = standin_configure("STANDIN_WORK", "asked");

class Work {
 public:
  explicit Work(unsigned flags = CU_STREAM_NON_BLOCKING) {
    REQUIRE(cuStreamCreate(&stream_, flags) == CUDA_SUCCESS);
    REQUIRE(cuEventCreate(&end_, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  }

  void queue() {
    const auto run = [](void* done) { *static_cast<std::atomic<bool>*>(done) = true; };
    REQUIRE(cuLaunchHostFunc(stream_, run, &done_) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(end_, stream_) == CUDA_SUCCESS);
  }

  bool is_done() const { return done_; }
  CUstream stream() const { return stream_; }
  CUevent end() const { return end_; }

 private:
  CUstream stream_ = nullptr;
  CUevent end_ = nullptr;
  std::atomic<bool> done_{false};
};

void synchronize(const Work& work) {
  REQUIRE(cuStreamSynchronize(work.stream()) == CUDA_SUCCESS);
}

}  // namespace

TEST_CASE("work begins when a call waits for it, and no other work with it") {
  const Device device;
  Work one;
  Work other;
  one.queue();
  other.queue();
  synchronize(other);
  CHECK(other.is_done());
  CHECK_FALSE(one.is_done());
  REQUIRE(cuEventSynchronize(one.end()) == CUDA_SUCCESS);
  CHECK(one.is_done());
}

TEST_CASE("the first question whether work is done is answered no, and lets it begin") {
  const Device device;
  Work by_event;
  Work by_stream;
  by_event.queue();
  by_stream.queue();
  CHECK(cuEventQuery(by_event.end()) == CUDA_ERROR_NOT_READY);
  while (cuEventQuery(by_event.end()) != CUDA_SUCCESS) {
  }
  CHECK(by_event.is_done());
  CHECK(cuStreamQuery(by_stream.stream()) == CUDA_ERROR_NOT_READY);
  while (cuStreamQuery(by_stream.stream()) != CUDA_SUCCESS) {
  }
  CHECK(by_stream.is_done());
}

TEST_CASE("what work comes after begins with it") {
  const Device device;
  Work first;
  Work second;
  first.queue();
  REQUIRE(cuStreamWaitEvent(second.stream(), first.end(), 0) == CUDA_SUCCESS);
  second.queue();
  synchronize(second);
  CHECK(first.is_done());
  Work blocking(CU_STREAM_DEFAULT);
  blocking.queue();
  REQUIRE(cuStreamSynchronize(CU_STREAM_LEGACY) == CUDA_SUCCESS);
  CHECK(blocking.is_done());
}

TEST_CASE("a free, a copy and the end of a context wait for work that nobody has asked for") {
  const Device device;
  const CUdeviceptr block = device.Allocate(1024);
  Work work;
  work.queue();
  REQUIRE(cuMemFree_v2(block) == CUDA_SUCCESS);
  CHECK(work.is_done());
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
  Work of_context;
  of_context.queue();
  REQUIRE(cuCtxDestroy_v2(context) == CUDA_SUCCESS);
  CHECK(of_context.is_done());
}

TEST_CASE("an event that a graph records is waited for") {
  const Device device;
  Work work;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  REQUIRE(cuGraphCreate(&graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddEventRecordNode(&node, graph, nullptr, 0, work.end()) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(exec, work.stream()) == CUDA_SUCCESS);
  CHECK(cuEventQuery(work.end()) == CUDA_ERROR_NOT_READY);
  REQUIRE(cuEventSynchronize(work.end()) == CUDA_SUCCESS);
}
