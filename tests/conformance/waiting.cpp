// A free, and work that has been submitted and not done. What is queued behind keep_busy() comes
// late: if freed memory were used again before, a byte would be wrong.
#include <atomic>

#include "patience.h"
#include "promise.h"

using namespace conformance;

namespace {

constexpr std::size_t kBytes = 300'000;

// Neighbours stay on both sides, so that nothing but its successors fits into its place.
CUdeviceptr allocate_between(std::uint32_t seed) {
  allocate(kBytes);
  const CUdeviceptr block = allocate(kBytes, seed);
  allocate(kBytes);
  return block;
}

// Late work: the stream copies the block into another one, which is returned.
CUdeviceptr copy_late(CUdeviceptr block, CUstream stream) {
  const CUdeviceptr copy = allocate(kBytes);
  keep_busy(stream);
  ok(cu.cuMemcpyDtoDAsync(copy, block, kBytes, stream));
  return copy;
}

void overwrite_late(CUdeviceptr block, CUstream stream) {
  keep_busy(stream);
  ok(cu.cuMemsetD8Async(block, 0xee, kBytes, stream));
}

}  // namespace

PROMISE_ALONE(a_free_returns_when_the_submitted_work_is_done,
              "cuMemFree waits for the work that was submitted before.") {
  // Done when it is let go, or after a while: a free that waits sees the end of it.
  static std::atomic<bool> let_go = false;
  static std::atomic<bool> done = false;
  const Stream stream;
  const CUdeviceptr block = allocate_between(1);
  const auto wait = [](void*) {
    programs::Patience patience(std::chrono::milliseconds(400));
    while (!let_go && patience.lasts()) {
    }
    done = true;
  };
  ok(cu.cuLaunchHostFunc(stream, wait, nullptr));
  ok(cu.cuMemFree(block));
  holds("the work is done", done);
  let_go = true;
  ok(cu.cuStreamSynchronize(stream));
}

PROMISE(memory_is_not_used_again_while_a_stream_writes_to_it,
        "Work that writes to a freed block does not reach whoever gets the memory next.") {
  const Stream stream;
  const CUdeviceptr block = allocate_between(1);
  overwrite_late(block, stream);
  ok(cu.cuMemFree(block));
  Successors(kBytes).are_left_alone();
}

PROMISE(memory_is_not_used_again_while_a_stream_reads_it,
        "Work that reads a freed block sees what was there before the free.") {
  const Stream stream;
  const CUdeviceptr block = allocate_between(1);
  const CUdeviceptr copy = copy_late(block, stream);
  ok(cu.cuMemFree(block));
  Successors(kBytes).are_left_alone();
  has_pattern("what was read", copy, kBytes, 1);
}

PROMISE(the_default_streams_work_keeps_its_memory,
        "The legacy stream's work counts as any other's.") {
  const CUdeviceptr block = allocate_between(1);
  const CUdeviceptr copy = copy_late(block, nullptr);
  ok(cu.cuMemFree(block));
  Successors(kBytes).are_left_alone();
  has_pattern("what was read", copy, kBytes, 1);
}

PROMISE(the_threads_default_stream_keeps_its_memory, "The per-thread stream's work counts, too.") {
  const CUdeviceptr block = allocate_between(1);
  CUdeviceptr copy = 0;
  in_another_thread(primary, [&] { copy = copy_late(block, CU_STREAM_PER_THREAD); });
  ok(cu.cuMemFree(block));
  Successors(kBytes).are_left_alone();
  has_pattern("what was read", copy, kBytes, 1);
}

PROMISE(a_destroyed_streams_work_keeps_its_memory,
        "cuStreamDestroy returns at once; what was queued is done, and keeps what it uses.") {
  const CUdeviceptr block = allocate_between(1);
  CUdeviceptr copy = 0;
  {
    const Stream stream;
    copy = copy_late(block, stream);
  }
  ok(cu.cuMemFree(block));
  Successors(kBytes).are_left_alone();
  has_pattern("what was read", copy, kBytes, 1);
}

PROMISE(work_behind_an_event_keeps_its_memory, "Work that waits for another stream is work, too.") {
  const Stream first;
  const Stream second;
  CUevent event = nullptr;
  ok(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  const CUdeviceptr block = allocate_between(1);
  keep_busy(first);
  ok(cu.cuEventRecord(event, first));
  ok(cu.cuStreamWaitEvent(second, event, 0));
  ok(cu.cuMemsetD8Async(block, 0xee, kBytes, second));
  ok(cu.cuMemFree(block));
  Successors(kBytes).are_left_alone();
  ok(cu.cuEventDestroy(event));
}

PROMISE(a_free_from_another_thread_waits_alike, "It does not matter which thread frees.") {
  const Stream stream;
  const CUdeviceptr block = allocate_between(1);
  overwrite_late(block, stream);
  in_another_thread(primary, [&] {
    ok(cu.cuMemFree(block));
    Successors(kBytes).are_left_alone();
  });
}

PROMISE(work_of_another_context_keeps_its_memory,
        "A block that a stream of the current context uses is not handed out in its own context.") {
  const CUdeviceptr block = allocate_between(1);
  const CUcontext second = new_context();
  {
    const Stream stream;
    const CUdeviceptr copy = copy_late(block, stream);
    ok(cu.cuMemFree(block));
    const Current back(primary);
    Successors(kBytes).are_left_alone();
    const Current there(second);
    ok(cu.cuCtxSynchronize());
    has_pattern("what was read", copy, kBytes, 1);
  }
  ok(cu.cuCtxDestroy(second));
}

PROMISE(work_of_another_device_keeps_its_memory,
        "A block that a stream of the second device reads is not handed out by the first.") {
  const CUcontext second = second_device();
  const CUdeviceptr block = allocate_between(1);
  int can = 0;
  ok(cu.cuDeviceCanAccessPeer(&can, 1, 0));
  if (can == 0) {
    lacks("devices that reach each other");
  }
  const Current there(second);
  ok(cu.cuCtxEnablePeerAccess(primary, 0));
  const Stream stream;
  const CUdeviceptr copy = copy_late(block, stream);
  ok(cu.cuMemFree(block));
  const Current back(primary);
  Successors(kBytes).are_left_alone();
  const Current again(second);
  ok(cu.cuCtxSynchronize());
  has_pattern("what was read", copy, kBytes, 1);
}

PROMISE(a_stream_ordered_free_comes_after_the_streams_work,
        "cuMemFreeAsync of plain memory takes it when the stream's earlier work is done.") {
  const Stream stream;
  const CUdeviceptr block = allocate_between(1);
  const CUdeviceptr copy = copy_late(block, stream);
  ok(cu.cuMemFreeAsync(block, stream));
  Successors(kBytes).are_left_alone();
  has_pattern("what was read", copy, kBytes, 1);
}

PROMISE(a_running_graph_keeps_its_memory, "Work of a graph that was launched is work, too.") {
  const Stream stream;
  const CUdeviceptr block = allocate_between(1);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ok(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  overwrite_late(block, stream);
  ok(cu.cuStreamEndCapture(stream, &graph));
  ok(cu.cuGraphInstantiate(&exec, graph, 0));
  ok(cu.cuGraphLaunch(exec, stream));
  ok(cu.cuMemFree(block));
  Successors(kBytes).are_left_alone();
}

PROMISE_ALONE(many_frees_under_work_lose_nothing,
              "Hundreds of blocks freed while work uses them come back, and only then.") {
  const Stream stream;
  const std::size_t before = memory_info().free;
  for (int round = 0; round < 3; ++round) {
    keep_busy(stream);
    for (int i = 0; i < 100; ++i) {
      const CUdeviceptr block = allocate(kBytes);
      ok(cu.cuMemsetD8Async(block, 0xee, kBytes, stream));
      ok(cu.cuMemFree(block));
    }
    Successors(kBytes).are_left_alone();
  }
  ok(cu.cuCtxSynchronize());
  CUdeviceptr most = 0;
  grants("half of the memory", cu.cuMemAlloc(&most, before / 2));
}
