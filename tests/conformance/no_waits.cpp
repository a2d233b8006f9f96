// Calls that return at once, whatever work there is that they need not wait for. Work that is held
// waits for the program; should the program wait for it instead, it lets itself go after a while,
// and the promise is broken.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "patience.h"
#include "promise.h"

using namespace conformance;

namespace {

constexpr std::chrono::milliseconds kPatience{1500};

// Work in a stream of the current context, one of its own if none is named, that lasts until it is
// let go.
class HeldWork {
 public:
  explicit HeldWork(CUstream stream = nullptr) {
    ok(cu.cuLaunchHostFunc(
        stream == nullptr ? stream_ : stream,
        [](void* self) { static_cast<HeldWork*>(self)->run(); }, this));
    while (!begun_) {
      std::this_thread::yield();
    }
  }
  ~HeldWork() { let_go(); }
  HeldWork(const HeldWork&) = delete;
  HeldWork& operator=(const HeldWork&) = delete;

  bool is_held() const { return !over_; }
  void let_go() {
    let_go_ = true;
    while (!over_) {
      std::this_thread::yield();
    }
  }
  CUstream stream() const { return stream_; }  // its own

 private:
  void run() {
    begun_ = true;
    programs::Patience patience(kPatience);
    while (!let_go_ && patience.lasts()) {
    }
    over_ = true;
  }

  std::atomic<bool> begun_{false};
  std::atomic<bool> let_go_{false};
  std::atomic<bool> over_{false};
  Stream stream_;
};

// A thread in the middle of a free that waits for held work of the primary context.
class WaitingFree {
 public:
  WaitingFree()
      : thread_([this, block = allocate(kMiB)] {
          ok(cu.cuCtxSetCurrent(primary));
          begun_ = true;
          ok(cu.cuMemFree(block));
          over_ = true;
        }) {
    while (!begun_) {
      std::this_thread::yield();
    }
    programs::Patience until_it_waits(std::chrono::milliseconds(100));
    while (!over_ && until_it_waits.lasts()) {
    }
  }
  ~WaitingFree() {
    work_.let_go();
    thread_.join();
  }
  WaitingFree(const WaitingFree&) = delete;
  WaitingFree& operator=(const WaitingFree&) = delete;

  bool is_held() const { return work_.is_held(); }

 private:
  HeldWork work_;
  std::atomic<bool> begun_{false};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace

PROMISE_ALONE(a_free_waits_for_no_other_device,
              "cuMemFree returns while another device works that cannot reach the memory.") {
  const CUdeviceptr block = allocate(kMiB);
  const CUcontext second = second_device();
  const Current there(second);
  HeldWork work;
  {
    const Current back(primary);
    grants("the free", cu.cuMemFree(block));
  }
  holds("the other device still works", work.is_held());
}

PROMISE_ALONE(memory_comes_back_while_another_device_works,
              "What was freed can be allocated again, whatever another device does.") {
  const std::size_t most = memory_info().free / 10 * 6;
  const CUcontext second = second_device();
  CUdeviceptr there_too = 0;
  const Current there(second);
  ok(cu.cuMemAlloc(&there_too, kMiB));
  HeldWork work;
  {
    const Current back(primary);
    for (int round = 0; round < 3; ++round) {
      CUdeviceptr block = 0;
      grants("most of the memory", cu.cuMemAlloc(&block, most));
      ok(cu.cuMemFree(block));
    }
  }
  holds("the other device still works", work.is_held());
}

PROMISE_ALONE(giving_up_a_reference_waits_for_no_free,
              "cuDevicePrimaryCtxRelease of a reference that is not the last ends nothing.") {
  const WaitingFree other;
  CUcontext again = nullptr;
  grants("one more reference", cu.cuDevicePrimaryCtxRetain(&again, 0));
  grants("giving it up", cu.cuDevicePrimaryCtxRelease(0));
  holds("the free waits still", other.is_held());
}

PROMISE_ALONE(a_capture_begins_while_a_free_waits,
              "cuStreamBeginCapture need not wait for what other threads wait for.") {
  const Stream stream;
  const auto capture = [&] {
    CUgraph graph = nullptr;
    grants("its beginning", cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    grants("its end", cu.cuStreamEndCapture(stream, &graph));
    ok(cu.cuGraphDestroy(graph));
  };
  {
    const WaitingFree other;
    capture();
    sees_wait("a capture", !other.is_held());
  }
  const WaitingFree other;
  for (int i = 0; i < 20; ++i) {
    capture();
  }
  sees_wait("twenty captures", !other.is_held());
}

PROMISE_ALONE(a_stream_ordered_free_does_not_wait,
              "cuMemFreeAsync returns at once, also for memory of cuMemAlloc.") {
  const CUdeviceptr block = allocate(kMiB);
  const Stream stream;
  HeldWork work;
  grants("the free", cu.cuMemFreeAsync(block, stream));
  holds("the device still works", work.is_held());
}

PROMISE_ALONE(a_stream_ordered_free_may_hold_what_the_stream_needs,
              "A thread calls cuMemFreeAsync with a lock that a function in the stream takes.") {
  static std::mutex mutex;
  static std::atomic<bool> got = false;
  const CUdeviceptr block = allocate(kMiB);
  const Stream stream;
  {
    const std::lock_guard lock(mutex);
    ok(cu.cuLaunchHostFunc(
        stream,
        [](void*) {
          programs::Patience patience(kPatience);
          while (!got && patience.lasts()) {
            const std::unique_lock attempt(mutex, std::try_to_lock);
            got = attempt.owns_lock();
          }
        },
        nullptr));
    grants("the free", cu.cuMemFreeAsync(block, stream));
  }
  ok(cu.cuStreamSynchronize(stream));
  holds("the function got the lock", got);
}

PROMISE_ALONE(an_allocation_does_not_wait, "cuMemAlloc returns while the device works.") {
  ok(cu.cuMemFree(allocate(kMiB)));
  const std::size_t most = memory_info().free / 10 * 9;
  HeldWork work;
  for (const std::size_t bytes : {std::size_t{1}, kMiB, 40 * kMiB, most / 3, most / 3}) {
    CUdeviceptr block = 0;
    grants("an allocation", cu.cuMemAlloc(&block, bytes));
  }
  holds("the device still works", work.is_held());
}

PROMISE_ALONE(an_allocation_does_not_wait_for_frees,
              "While there is memory, cuMemAlloc does not wait for what was freed to be free.") {
  std::vector<CUdeviceptr> blocks;
  for (int i = 0; i < 100; ++i) {
    blocks.push_back(allocate(kMiB));
  }
  HeldWork work;
  const Stream stream;
  for (const CUdeviceptr block : blocks) {
    ok(cu.cuMemFreeAsync(block, stream));
  }
  for (int i = 0; i < 100; ++i) {
    allocate(kMiB + 512);
  }
  holds("the device still works", work.is_held());
}

namespace {

// Memory is allocated, and freed by a stream that has nothing else to do.
void goes_through(CUstream stream, std::size_t bytes) {
  CUdeviceptr block = 0;
  grants("most of the memory", cu.cuMemAlloc(&block, bytes));
  ok(cu.cuMemFreeAsync(block, stream));
  ok(cu.cuStreamSynchronize(stream));
}

}  // namespace

PROMISE_ALONE(what_an_idle_stream_freed_comes_back_while_another_works,
              "What cuMemFreeAsync frees waits for its stream, for no other.") {
  const std::size_t most = memory_info().free / 10 * 8;
  const Stream idle;
  HeldWork work;
  for (int round = 0; round < 3; ++round) {
    goes_through(idle, most);
  }
  holds("the other stream still works", work.is_held());
}

PROMISE_ALONE(what_a_stream_freed_comes_back_before_its_later_work,
              "What cuMemFreeAsync frees waits for the work before it.") {
  const std::size_t most = memory_info().free / 10 * 7;
  const Stream stream;
  CUdeviceptr block = allocate(most);
  ok(cu.cuMemFreeAsync(block, stream));
  ok(cu.cuStreamSynchronize(stream));
  HeldWork work(stream);
  grants("most of the memory", cu.cuMemAlloc(&block, most));
  holds("the stream still works", work.is_held());
}

PROMISE_ALONE(what_waits_for_a_destroyed_stream_keeps_nothing_else,
              "A stream is destroyed that still works; what others free comes back.") {
  const std::size_t most = memory_info().free / 10 * 7;
  const CUdeviceptr small = allocate(kMiB);
  CUstream destroyed = nullptr;
  ok(cu.cuStreamCreate(&destroyed, CU_STREAM_NON_BLOCKING));
  HeldWork work(destroyed);
  ok(cu.cuMemFreeAsync(small, destroyed));
  ok(cu.cuStreamDestroy(destroyed));
  for (int round = 0; round < 3; ++round) {
    const Stream stream;
    goes_through(stream, most);
  }
  sees_wait("all that", !work.is_held());
}

PROMISE_ALONE(
    the_legacy_stream_orders_only_what_the_program_puts_there,
    "Two blocking streams can run beside each other as long as nothing is put into the default "
    "stream.") {
  ok(cu.cuMemFreeAsync(allocate(kMiB), CU_STREAM_LEGACY));
  ok(cu.cuCtxSynchronize());
  const Stream held(CU_STREAM_DEFAULT);
  const Stream other(CU_STREAM_DEFAULT);
  const Stream capturing;
  HeldWork work(held);
  CUgraph graph = nullptr;
  ok(cu.cuStreamBeginCapture(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
  ok(cu.cuStreamEndCapture(capturing, &graph));
  ok(cu.cuGraphDestroy(graph));
  allocate(kMiB);
  ok(cu.cuLaunchHostFunc(
      other, [](void* /*nothing*/) {}, nullptr));
  ok(cu.cuStreamSynchronize(other));
  sees_wait("the second stream", !work.is_held());
}

PROMISE_ALONE(a_context_ends_with_what_it_freed_while_another_works,
              "cuCtxDestroy need not wait for what another context has freed.") {
  const CUcontext second = new_context();
  {
    const Stream stream;
    ok(cu.cuMemFreeAsync(allocate(kMiB), stream));
    ok(cu.cuStreamSynchronize(stream));
  }
  ok(cu.cuCtxSetCurrent(primary));
  const CUdeviceptr block = allocate(kMiB);
  HeldWork work;
  ok(cu.cuMemFreeAsync(block, work.stream()));
  grants("the end", cu.cuCtxDestroy(second));
  sees_wait("all that", !work.is_held());
}

PROMISE_ALONE(an_end_waits_for_no_other_device,
              "A context ends while another device works that shares nothing with it.") {
  const CUcontext third = new_context();
  ok(cu.cuMemFree(allocate(kMiB)));
  const CUcontext second = second_device();
  const Current there(second);
  CUdeviceptr there_too = 0;
  ok(cu.cuMemAlloc(&there_too, kMiB));
  HeldWork work;
  grants("the end", cu.cuCtxDestroy(third));
  holds("the other device still works", work.is_held());
}

namespace {

// A thread that allocates and frees small blocks in the order of a stream all the while.
class Churn {
 public:
  Churn()
      : thread_([this] {
          ok(cu.cuCtxSetCurrent(primary));
          const Stream stream;
          while (!stop_) {
            CUdeviceptr block = 0;
            if (cu.cuMemAlloc(&block, 4096) == CUDA_SUCCESS) {
              ok(cu.cuMemFreeAsync(block, stream));
            }
            begun_ = true;
          }
        }) {
    while (!begun_) {
      std::this_thread::yield();
    }
  }
  ~Churn() {
    stop_ = true;
    thread_.join();
  }
  Churn(const Churn&) = delete;
  Churn& operator=(const Churn&) = delete;

 private:
  std::atomic<bool> begun_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Whether the call comes back while others go on. It is given much time.
template <typename Body>
bool comes_back(const Body& body) {
  std::atomic<bool> back = false;
  bool in_time = false;
  std::thread caller;
  {
    const Churn churn;
    caller = std::thread([&] {
      ok(cu.cuCtxSetCurrent(primary));
      body();
      back = true;
    });
    programs::Patience patience(std::chrono::seconds(20));
    while (!back && patience.lasts()) {
    }
    in_time = back;
  }
  caller.join();
  return in_time;
}

}  // namespace

PROMISE_ALONE(
    what_cannot_be_had_is_refused_while_others_go_on,
    "cuMemAlloc of too much fails, however much other threads allocate and free meanwhile.") {
  const std::size_t too_much = memory_info().total / 10 * 12;
  const std::size_t most = memory_info().free / 10 * 8;
  const CUdeviceptr held = allocate(most);
  const bool back = comes_back([&] {
    CUdeviceptr block = 0;
    refuses("too much", cu.cuMemAlloc(&block, too_much), CUDA_ERROR_OUT_OF_MEMORY);
    refuses("as much again", cu.cuMemAlloc(&block, most), CUDA_ERROR_OUT_OF_MEMORY);
  });
  holds("it came back", back);
  ok(cu.cuMemFree(held));
}

PROMISE_ALONE(
    what_no_wait_could_serve_is_refused_at_once,
    "cuMemAlloc of more than all that is freed, or not used, fails while the device works.") {
  const std::size_t free_bytes = memory_info().free;
  allocate(free_bytes / 10 * 7);
  const CUdeviceptr block = allocate(free_bytes / 10);
  const Stream stream;
  HeldWork work(stream);
  grants("the free", cu.cuMemFreeAsync(block, stream));
  for (int i = 0; i < 5; ++i) {
    CUdeviceptr other = 0;
    refuses("too much", cu.cuMemAlloc(&other, free_bytes / 10 * 5), CUDA_ERROR_OUT_OF_MEMORY);
  }
  holds("the device still works", work.is_held());
}

PROMISE_ALONE(a_context_ends_while_others_go_on,
              "cuCtxDestroy comes back, however much other threads allocate and free meanwhile.") {
  const CUcontext second = new_context();
  ok(cu.cuMemFree(allocate(kMiB)));
  ok(cu.cuCtxSetCurrent(primary));
  holds("it came back", comes_back([&] { grants("the end", cu.cuCtxDestroy(second)); }));
}

PROMISE_ALONE(
    an_idle_context_ends_while_another_works,
    "cuCtxDestroy waits for its own context's work, and need not for what another has freed.") {
  const CUcontext second = new_context();
  ok(cu.cuCtxSetCurrent(primary));
  const CUdeviceptr block = allocate(kMiB);
  const Stream stream;
  HeldWork work;
  ok(cu.cuMemFreeAsync(block, stream));
  grants("the end", cu.cuCtxDestroy(second));
  sees_wait("all that", !work.is_held());
}
