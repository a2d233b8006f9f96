// Allocation and free while a stream captures: what a capture forbids, what it survives, and what
// the graph does later.
#include "promise.h"

using namespace conformance;

namespace {

constexpr std::size_t kBytes = 200'000;

class Capturing {
 public:
  explicit Capturing(CUstreamCaptureMode mode) { ok(cu.cuStreamBeginCapture(stream_, mode)); }
  ~Capturing() {
    if (graph_ != nullptr) {
      cu.cuGraphDestroy(graph_);
    }
  }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

  CUstream stream() const { return stream_; }
  CUresult end() { return cu.cuStreamEndCapture(stream_, &graph_); }
  void launch() const {
    CUgraphExec exec = nullptr;
    ok(cu.cuGraphInstantiate(&exec, graph_, 0));
    ok(cu.cuGraphLaunch(exec, stream_));
    ok(cu.cuStreamSynchronize(stream_));
    ok(cu.cuGraphExecDestroy(exec));
  }

 private:
  Stream stream_;
  CUgraph graph_ = nullptr;
};

using See = void (*)(std::string_view, CUresult);

// An allocation and a free, each in a capture of its own, from the capturing thread or another.
void allocate_and_free(CUstreamCaptureMode mode, bool other_thread, See see) {
  const CUdeviceptr block = allocate(kBytes);
  const auto in_thread = [&](const auto& body) {
    other_thread ? in_another_thread(primary, body) : body();
  };
  {
    Capturing capture(mode);
    CUdeviceptr fresh = 0;
    in_thread([&] { see("cuMemAlloc", cu.cuMemAlloc(&fresh, kBytes)); });
    see("end of the capture", capture.end());
  }
  {
    Capturing capture(mode);
    in_thread([&] { see("cuMemFree", cu.cuMemFree(block)); });
    see("end of the capture", capture.end());
  }
}

void refused(std::string_view what, CUresult result) {
  refuses(what, result);
}

// Whether frees wait and memory is reused as if there had never been a capture.
void all_is_as_before() {
  const Stream stream;
  const CUdeviceptr block = allocate(kBytes, 1);
  const CUdeviceptr copy = allocate(kBytes);
  keep_busy(stream);
  ok(cu.cuMemcpyDtoDAsync(copy, block, kBytes, stream));
  grants("a free afterwards", cu.cuMemFree(block));
  Successors(kBytes).are_left_alone();
  has_pattern("what was read", copy, kBytes, 1);
  Capturing capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
  grants("another capture", capture.end());
}

}  // namespace

PROMISE(a_relaxed_capture_survives_allocation_and_free,
        "A capture in relaxed mode prohibits no call of its thread or of another.") {
  allocate_and_free(CU_STREAM_CAPTURE_MODE_RELAXED, false, grants);
  allocate_and_free(CU_STREAM_CAPTURE_MODE_RELAXED, true, grants);
}

PROMISE(a_thread_local_capture_does_not_concern_other_threads,
        "A thread-local capture lets other threads allocate and free.") {
  allocate_and_free(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, true, grants);
}

PROMISE(a_capture_forbids_allocation_where_its_mode_says_so,
        "An allocation is potentially unsafe: a global capture prohibits it everywhere, a "
        "thread-local one in its thread.") {
  allocate_and_free(CU_STREAM_CAPTURE_MODE_GLOBAL, false, refused);
  allocate_and_free(CU_STREAM_CAPTURE_MODE_GLOBAL, true, refused);
  allocate_and_free(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false, refused);
}

PROMISE(a_thread_in_relaxed_mode_may_allocate_beside_any_capture,
        "cuThreadExchangeStreamCaptureMode exempts a thread from the captures of others.") {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
  allocate_and_free(CU_STREAM_CAPTURE_MODE_GLOBAL, false, grants);
}

PROMISE(a_threads_capture_mode_is_its_own_affair,
        "Only the program exchanges the capture mode of its threads.") {
  Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
  ok(cu.cuMemFree(allocate(100 * kMiB)));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
  holds("it was global", mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  ok(cu.cuMemFree(allocate(200 * kMiB)));
  ok(cu.cuThreadExchangeStreamCaptureMode(&mode));
  holds("it was thread-local", mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  grants("end of the capture", capture.end());
}

PROMISE(a_relaxed_capture_survives_large_and_pitched_allocations,
        "Whatever an allocation takes to be served, a relaxed capture is not disturbed.") {
  Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
  std::vector<CUdeviceptr> blocks;
  for (const std::size_t bytes : {512UL, kMiB, 40 * kMiB, 300 * kMiB}) {
    blocks.push_back(allocate(bytes));
  }
  std::size_t pitch = 0;
  grants("cuMemAllocPitch", cu.cuMemAllocPitch(&blocks.emplace_back(), &pitch, 100, 7, 8));
  CUdeviceptr block = 0;
  refuses("too much", cu.cuMemAlloc(&block, std::size_t{1} << 50U), CUDA_ERROR_OUT_OF_MEMORY);
  free_all(blocks);
  grants("end of the capture", capture.end());
}

PROMISE(questions_leave_a_capture_alive,
        "What describes memory is not unsafe: any capture survives it.") {
  const CUdeviceptr block = allocate(kBytes);
  Capturing capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::size_t bytes = 0;
  std::size_t total = 0;
  grants("cuMemGetInfo", cu.cuMemGetInfo(&bytes, &total));
  grants("cuDeviceTotalMem", cu.cuDeviceTotalMem(&total, 0));
  grants("cuMemGetAddressRange", cu.cuMemGetAddressRange(nullptr, &bytes, block + 1));
  sees("size",
       static_cast<long long>(attribute<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, block)));
  CUstreamCaptureStatus status{};
  ok(cu.cuStreamIsCapturing(capture.stream(), &status));
  holds("it is active", status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  grants("end of the capture", capture.end());
}

PROMISE(memory_freed_during_a_capture_is_nobodys,
        "A free during a relaxed capture is a free: not twice, and not a pointer any more.") {
  const CUdeviceptr block = allocate(kBytes);
  Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
  grants("the free", cu.cuMemFree(block));
  refuses("again", cu.cuMemFree(block), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr start = 0;
  refuses("its range", cu.cuMemGetAddressRange(&start, nullptr, block));
  refuses("its start",
          cu.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, block));
  grants("end of the capture", capture.end());
}

PROMISE_ALONE(memory_freed_during_a_capture_comes_back,
              "After the capture all of it can be had again.") {
  const std::size_t most = memory_info().free / 10 * 7;
  for (int round = 0; round < 3; ++round) {
    const CUdeviceptr block = allocate(most);
    Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cu.cuMemFree(block));
    ok(capture.end());
  }
  all_is_as_before();
}

PROMISE_ALONE(memory_freed_during_a_capture_counts_as_free,
              "cuMemGetInfo counts what was freed while a stream captured.") {
  const CUdeviceptr block = allocate(100 * kMiB);
  Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
  const std::size_t before = memory_info().free;  // its stream may have taken some
  ok(cu.cuMemFree(block));
  ok(capture.end());
  holds("it is free", memory_info().free >= before + 100 * kMiB);
}

PROMISE(memory_freed_during_a_capture_is_not_used_again_too_early,
        "Queued work keeps its memory also when a stream captures meanwhile.") {
  const Stream stream;
  const CUdeviceptr block = allocate(kBytes, 1);
  const CUdeviceptr copy = allocate(kBytes);
  keep_busy(stream);
  ok(cu.cuMemcpyDtoDAsync(copy, block, kBytes, stream));
  Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
  ok(cu.cuMemFree(block));
  const Successors successors(kBytes);
  ok(capture.end());
  successors.are_left_alone();
  has_pattern("what was read", copy, kBytes, 1);
}

PROMISE(a_graph_writes_where_it_was_told_after_unrelated_frees,
        "A graph holds addresses: what is freed beside them does not concern it.") {
  const CUdeviceptr from = allocate(kBytes, 1);
  const CUdeviceptr beside = allocate(kBytes);
  const CUdeviceptr to = allocate(kBytes);
  Capturing capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
  ok(cu.cuMemcpyDtoDAsync(to, from, kBytes, capture.stream()));
  ok(capture.end());
  ok(cu.cuMemFree(beside));
  const Successors successors(kBytes);
  for (int i = 0; i < 3; ++i) {
    ok(cu.cuMemsetD8Async(to, 0, kBytes, capture.stream()));
    capture.launch();
    has_pattern("what the graph copied", to, kBytes, 1);
  }
  successors.are_left_alone();
}

PROMISE(memory_of_a_graph_is_not_handed_out_before_it_is_freed,
        "Memory stays the program's, whether work uses it now or a graph will later.") {
  const CUdeviceptr block = allocate(kBytes);
  Capturing capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
  ok(cu.cuMemsetD8Async(block, 0xee, kBytes, capture.stream()));
  ok(capture.end());
  const Successors successors(kBytes);
  capture.launch();
  successors.are_left_alone();
  grants("its free", cu.cuMemFree(block));
}

PROMISE(memory_allocated_during_a_capture_serves_its_graph,
        "What a relaxed capture's thread allocates can be used by the work it captures.") {
  Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
  const CUdeviceptr block = allocate(kBytes);
  ok(cu.cuMemsetD8Async(block, 0x11, kBytes, capture.stream()));
  ok(capture.end());
  capture.launch();
  unsigned char last = 0;
  ok(cu.cuMemcpyDtoH(&last, block + kBytes - 1, 1));
  sees("its last byte", last);
  grants("its free", cu.cuMemFree(block));
}

PROMISE(
    a_captured_allocation_belongs_to_its_graph,
    "cuMemAllocAsync in a capture makes an allocation of the graph; cuMemAlloc beside it not.") {
  Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
  CUdeviceptr of_graph = 0;
  grants("cuMemAllocAsync", cu.cuMemAllocAsync(&of_graph, kBytes, capture.stream()));
  const CUdeviceptr plain = allocate(kBytes);
  grants("cuMemFreeAsync", cu.cuMemFreeAsync(of_graph, capture.stream()));
  grants("end of the capture", capture.end());
  capture.launch();
  grants("cuMemFree of the plain block", cu.cuMemFree(plain));
}

PROMISE(plain_memory_is_not_freed_by_a_captured_free,
        "During a capture cuMemFreeAsync takes only the address of a graph allocation.") {
  const CUdeviceptr block = allocate(kBytes, 1);
  Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
  refuses("cuMemFreeAsync", cu.cuMemFreeAsync(block, capture.stream()), CUDA_ERROR_INVALID_VALUE);
  sees("end of the capture", capture.end());
  grants("cuMemFree", cu.cuMemFree(block));
}

PROMISE(a_capture_ends_with_its_stream, "cuStreamDestroy ends a capture that is under way.") {
  for (int i = 0; i < 3; ++i) {
    const Capturing dropped(CU_STREAM_CAPTURE_MODE_GLOBAL);
  }
  all_is_as_before();
}

PROMISE(a_capture_ends_with_its_context, "cuCtxDestroy ends the captures of its streams.") {
  const CUcontext second = new_context();
  CUstream stream = nullptr;
  ok(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ok(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ok(cu.cuCtxDestroy(second));
  all_is_as_before();
}

PROMISE(a_capture_ends_with_the_primary_context,
        "So does a reset of the primary context, and its last release.") {
  for (const bool reset : {true, false}) {
    CUstream stream = nullptr;
    ok(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ok(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(reset ? cu.cuDevicePrimaryCtxReset(0) : cu.cuDevicePrimaryCtxRelease(0));
    ok(cu.cuCtxSetCurrent(nullptr));
    if (reset) {
      ok(cu.cuDevicePrimaryCtxRelease(0));
    }
    primary = programs::use_device(cu, 0);
    all_is_as_before();
  }
}

PROMISE(a_capture_of_the_threads_own_stream_is_as_any,
        "The per-thread stream can be captured, and the capture ends like another.") {
  const CUdeviceptr block = allocate(kBytes);
  CUgraph graph = nullptr;
  ok(cu.cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
  grants("a free", cu.cuMemFree(block));
  in_another_thread(primary, [] { grants("another thread's", cu.cuMemFree(allocate(kBytes))); });
  grants("end of the capture", cu.cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
  ok(cu.cuGraphDestroy(graph));
  all_is_as_before();
}

PROMISE(a_refused_beginning_or_end_changes_nothing,
        "A stream is captured once at a time, and only what was begun is ended.") {
  Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
  const Stream other;
  CUgraph graph = nullptr;
  refuses("a second beginning",
          cu.cuStreamBeginCapture(capture.stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
  refuses("of the legacy stream",
          cu.cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_RELAXED));
  refuses("the end of another", cu.cuStreamEndCapture(other, &graph));
  grants("an allocation and a free", cu.cuMemFree(allocate(kBytes)));
  grants("the end", capture.end());
  refuses("another end", capture.end());
  all_is_as_before();
}

PROMISE_ALONE(memory_goes_round_while_a_stream_captures,
              "A relaxed capture, however long, does not keep memory from being used again.") {
  const std::size_t third = memory_info().free / 3;
  Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
  for (int round = 0; round < 8; ++round) {
    CUdeviceptr block = 0;
    const CUresult result = cu.cuMemAlloc(&block, third);
    grants("a third of the memory", result);
    if (result == CUDA_SUCCESS) {
      ok(cu.cuMemFree(block));
    }
  }
  grants("end of the capture", capture.end());
}

PROMISE_ALONE(
    much_goes_round_beside_a_capture,
    "Many times the memory is allocated and freed while a stream of another thread captures.") {
  const std::size_t part = memory_info().free / 80;
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL}) {
    Capturing capture(mode);
    in_another_thread(primary, [&] {
      int rounds = 0;
      CUdeviceptr block = 0;
      while (rounds < 500 && cu.cuMemAlloc(&block, part) == CUDA_SUCCESS &&
             cu.cuMemFree(block) == CUDA_SUCCESS) {
        ++rounds;
      }
      sees("rounds", rounds);
    });
    grants("end of the capture", capture.end());
  }
}

PROMISE(an_invalidated_capture_ends, "A capture that broke is over when its end is asked for.") {
  Capturing capture(CU_STREAM_CAPTURE_MODE_RELAXED);
  refuses("synchronising it", cu.cuStreamSynchronize(capture.stream()));
  refuses("its end", capture.end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  all_is_as_before();
}

PROMISE(
    a_capture_is_ended_by_its_own_thread,
    "A global capture is ended by the thread that began it; others are refused. Whether it goes on "
    "then is the driver's affair.") {
  Capturing capture(CU_STREAM_CAPTURE_MODE_GLOBAL);
  in_another_thread(primary, [&] {
    refuses("the end from another thread", capture.end(), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  });
  sees("the end from its own", capture.end());
  all_is_as_before();
}
