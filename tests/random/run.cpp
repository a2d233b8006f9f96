#include "run.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <latch>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace random_programs {

std::array<Place, kMostThreads> places;

namespace {

// What a step writes tells which step it was, and in which run: nothing that an earlier run left is
// taken for it.
std::uint32_t value_of(int number, std::uint16_t run) {
  return (std::uint32_t{run} << 16U) | static_cast<std::uint16_t>(number + 1);
}

std::string origin_of(std::uint32_t value, std::uint16_t run) {
  const auto number = static_cast<int>(value & 0xffffU) - 1;
  return value >> 16U == run && number >= 0 ? "what step " + std::to_string(number) + " writes"
                                            : "what no step writes";
}

class Run {
 public:
  Run(const programs::Driver& api, const Program& program, CUcontext keeper, std::uint32_t* host,
      std::uint16_t run)
      : api_(api),
        program_(program),
        end_(program.end),
        run_(run),
        keeper_(keeper),
        contexts_(end_.contexts.size()),
        streams_(end_.streams.size()),
        blocks_(end_.blocks.size()),
        pooled_(end_.blocks.size()),
        slots_(end_.slots.size()),
        events_(end_.events.size()),
        graphs_(end_.graphs.size()) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i] = host;
      host += end_.slots[i].words;
    }
  }

  std::string what_is_wrong() {
    std::vector<std::thread> others;
    for (int thread = 1; thread < program_.threads; ++thread) {
      others.emplace_back([this, thread] { follow(thread); });
    }
    follow(0);
    for (int thread = 1; thread < program_.threads; ++thread) {
      wait_for(thread, kAll);
    }
    places[0].doing = Place::Doing::kEnding;
    if (!failed_) {
      check();
    }
    clean_up();
    // Not before: in the end of a thread that has worked in its per-thread stream an H200's driver
    // may wait for ever while contexts are there.
    may_leave_.count_down();
    for (int thread = 1; thread < program_.threads; ++thread) {
      at(others, thread - 1).join();
      at(places, thread).doing = Place::Doing::kNothing;
    }
    places[0].doing = Place::Doing::kNothing;
    return wrong_;
  }

 private:
  // One thread's steps, each when those are done that it has to come after.
  void follow(int thread) {
    Place& here = at(places, thread);
    here.thread = gettid();
    for (int place = 0; place < static_cast<int>(program_.steps.size()); ++place) {
      const Step& step = at(program_.steps, place);
      if (step.thread != thread) {
        continue;
      }
      here.step = place;
      here.doing = Place::Doing::kWaiting;
      for (int other = 0; other < program_.threads; ++other) {
        wait_for(other, at(step.after, other));
      }
      here.doing = Place::Doing::kPerforming;
      if (!failed_) {
        perform(step);
      }
      // Sequentially consistent: notify_all() of libstdc++ looks first whether anybody waits, and
      // must not do that before the other threads see the number.
      at(done_, thread) = place;
      at(done_, thread).notify_all();
    }
    here.doing = Place::Doing::kLeaving;  // what a thread's end does is the driver's, too
    at(done_, thread) = kAll;
    at(done_, thread).notify_all();
    if (thread != 0) {
      may_leave_.wait();
    }
  }

  void wait_for(int thread, int place) {
    std::atomic<int>& done = at(done_, thread);
    for (int now = done.load(std::memory_order_acquire); now < place;
         now = done.load(std::memory_order_acquire)) {
      done.wait(now, std::memory_order_acquire);
    }
  }

  void fail(const std::string& why) {
    const std::lock_guard lock(mutex_);
    wrong_ = wrong_.empty() ? why : wrong_;
    failed_ = true;
  }

  void must(const Step& step, const char* function, CUresult result) {
    if (result != CUDA_SUCCESS) {
      fail("step " + std::to_string(step.number) + ", " + function + ": " +
           programs::name_of(api_, result));
    }
  }

  void perform(const Step& step) {
    const bool needs_context = step.context >= 0 && step.kind != Kind::kCreateContext &&
                               step.kind != Kind::kRetainPrimary && step.kind != Kind::kEndContext;
    if (needs_context) {
      must(step, "cuCtxSetCurrent", api_.cuCtxSetCurrent(at(contexts_, step.context)));
    }
    switch (step.kind) {
      case Kind::kCreateContext:
      case Kind::kRetainPrimary:
        return begin_context(step);
      case Kind::kEndContext:
        return end_context(step, step.context, step.choice != 0);
      case Kind::kWriteHost:
        std::fill_n(at(slots_, step.slot), step.words, value_of(step.number, run_));
        return;
      case Kind::kSynchronizeContext:
        return must(step, "cuCtxSynchronize", api_.cuCtxSynchronize());
      case Kind::kSynchronizeEvent:
        return must(step, "cuEventSynchronize", api_.cuEventSynchronize(at(events_, step.event)));
      case Kind::kDestroyGraph:
        return must(step, "cuGraphExecDestroy", api_.cuGraphExecDestroy(at(graphs_, step.graph)));
      case Kind::kAllocate:
        return must(step, "cuMemAlloc", api_.cuMemAlloc(&at(blocks_, step.block), bytes_of(step)));
      case Kind::kAllocatePitch: {
        constexpr std::size_t kRowBytes = 512;
        std::size_t pitch = 0;
        return must(step, "cuMemAllocPitch",
                    api_.cuMemAllocPitch(&at(blocks_, step.block), &pitch, kRowBytes,
                                         bytes_of(step) / kRowBytes, 4));
      }
      case Kind::kFree:
        at(pooled_, step.block) = 0;
        return must(step, "cuMemFree", api_.cuMemFree(at(blocks_, step.block)));
      case Kind::kCreateStream:
        return create_stream(step);
      default:
        return perform_in_stream(step, at(streams_, step.stream));
    }
  }

  static std::size_t bytes_of(const Step& step) { return std::size_t{step.words} * 4; }

  void begin_context(const Step& step) {
    CUcontext& context = at(contexts_, step.context);
    if (step.kind == Kind::kRetainPrimary) {
      return must(step, "cuDevicePrimaryCtxRetain",
                  api_.cuDevicePrimaryCtxRetain(&context, step.choice));
    }
    must(step, "cuCtxCreate", api_.create_context(&context, 0, step.choice));
    CUcontext popped = nullptr;
    must(step, "cuCtxPopCurrent", api_.cuCtxPopCurrent(&popped));
  }

  void end_context(const Step& step, int index, bool reset) {
    const Context& context = at(end_.contexts, index);
    CUcontext const handle = std::exchange(at(contexts_, index), nullptr);
    if (!context.primary) {
      return must(step, "cuCtxDestroy", api_.cuCtxDestroy(handle));
    }
    if (reset) {
      must(step, "cuDevicePrimaryCtxReset", api_.cuDevicePrimaryCtxReset(context.device));
    }
    must(step, "cuDevicePrimaryCtxRelease", api_.cuDevicePrimaryCtxRelease(context.device));
  }

  void create_stream(const Step& step) {
    CUstream& stream = at(streams_, step.stream);
    switch (static_cast<Flavour>(step.choice)) {
      case Flavour::kLegacy:
        stream = nullptr;
        return;
      case Flavour::kPerThread:
        stream = CU_STREAM_PER_THREAD;
        return;
      case Flavour::kBlocking:
        return must(step, "cuStreamCreate", api_.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
      case Flavour::kNonBlocking:
        return must(step, "cuStreamCreate", api_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    }
  }

  void perform_in_stream(const Step& step, CUstream stream) {
    switch (step.kind) {
      case Kind::kDestroyStream:
        return must(step, "cuStreamDestroy", api_.cuStreamDestroy(stream));
      case Kind::kAllocateAsync:
        must(step, "cuMemAllocAsync",
             api_.cuMemAllocAsync(&at(blocks_, step.block), bytes_of(step), stream));
        at(pooled_, step.block) = at(blocks_, step.block);
        return;
      case Kind::kFreeAsync:
        at(pooled_, step.block) = 0;
        return must(step, "cuMemFreeAsync", api_.cuMemFreeAsync(at(blocks_, step.block), stream));
      case Kind::kFill:
        return must(step, "cuMemsetD32Async",
                    api_.cuMemsetD32Async(at(blocks_, step.block), value_of(step.number, run_),
                                          step.words, stream));
      case Kind::kCopyWithin:
        return must(step, "cuMemcpyDtoDAsync",
                    api_.cuMemcpyDtoDAsync(at(blocks_, step.block), at(blocks_, step.source),
                                           bytes_of(step), stream));
      case Kind::kCopyOut:
        return must(step, "cuMemcpyDtoHAsync",
                    api_.cuMemcpyDtoHAsync(at(slots_, step.slot), at(blocks_, step.block),
                                           bytes_of(step), stream));
      case Kind::kCopyIn:
        return must(step, "cuMemcpyHtoDAsync",
                    api_.cuMemcpyHtoDAsync(at(blocks_, step.block), at(slots_, step.slot),
                                           bytes_of(step), stream));
      case Kind::kRecord:
        must(step, "cuEventCreate",
             api_.cuEventCreate(&at(events_, step.event), CU_EVENT_DISABLE_TIMING));
        return must(step, "cuEventRecord", api_.cuEventRecord(at(events_, step.event), stream));
      case Kind::kWait:
        return must(step, "cuStreamWaitEvent",
                    api_.cuStreamWaitEvent(stream, at(events_, step.event), 0));
      case Kind::kSynchronizeStream:
        return must(step, "cuStreamSynchronize", api_.cuStreamSynchronize(stream));
      case Kind::kBeginCapture:
        return must(
            step, "cuStreamBeginCapture",
            api_.cuStreamBeginCapture(stream, static_cast<CUstreamCaptureMode>(step.choice)));
      case Kind::kEndCapture: {
        CUgraph graph = nullptr;
        must(step, "cuStreamEndCapture", api_.cuStreamEndCapture(stream, &graph));
        if (graph != nullptr) {
          must(step, "cuGraphInstantiate",
               api_.cuGraphInstantiateWithFlags(&at(graphs_, step.graph), graph, 0));
          must(step, "cuGraphDestroy", api_.cuGraphDestroy(graph));
        }
        return;
      }
      case Kind::kLaunch:
        return must(step, "cuGraphLaunch", api_.cuGraphLaunch(at(graphs_, step.graph), stream));
      default:
        return fail("a step that nobody performs");
    }
  }

  // Precondition: nothing has failed, so that all is there that the model says.
  void check() {
    const Step last{.kind = Kind::kSynchronizeContext, .number = -1};
    for (std::size_t i = 0; i < contexts_.size(); ++i) {
      if (end_.contexts[i].live) {
        must(last, "cuCtxSetCurrent", api_.cuCtxSetCurrent(contexts_[i]));
        must(last, "cuCtxSynchronize", api_.cuCtxSynchronize());
      }
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      check("slot " + std::to_string(i), end_.slots[i], slots_[i]);
    }
    std::vector<std::uint32_t> read;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Buffer& block = end_.blocks[i];
      if (block.live && block.content != kUndefined) {
        read.resize(block.words);
        must(last, "cuCtxSetCurrent", api_.cuCtxSetCurrent(at(contexts_, block.context)));
        must(last, "cuMemcpyDtoH", api_.cuMemcpyDtoH(read.data(), blocks_[i], read.size() * 4));
        check("block " + std::to_string(i), block, read.data());
      }
    }
  }

  void check(const std::string& name, const Buffer& buffer, const std::uint32_t* words) {
    if (buffer.content == kUndefined) {
      return;
    }
    const std::uint32_t wanted = value_of(buffer.content, run_);
    const std::uint32_t* const end = words + buffer.words;
    const std::uint32_t* const first =
        std::find_if(words, end, [&](std::uint32_t word) { return word != wanted; });
    if (first == end) {
      return;
    }
    const auto wrong =
        std::count_if(first, end, [&](std::uint32_t word) { return word != wanted; });
    fail(name + ": " + std::to_string(wrong * 4) + " wrong bytes of " +
         std::to_string(buffer.words * 4) + ", the first at " +
         std::to_string((first - words) * 4) + ": " + origin_of(*first, run_) + ", not " +
         origin_of(wanted, run_));
  }

  void clean_up() {
    const Step last{.kind = Kind::kEndContext, .number = -1};
    for (std::size_t i = 0; i < graphs_.size(); ++i) {
      if (end_.graphs[i].state == Graph::State::kReady && graphs_[i] != nullptr) {
        must(last, "cuGraphExecDestroy", api_.cuGraphExecDestroy(graphs_[i]));
      }
    }
    for (int i = 0; i < static_cast<int>(contexts_.size()); ++i) {
      if (at(contexts_, i) != nullptr) {
        end_context(last, i, false);
      }
    }
    // cuda.h, cuCtxDestroy: what pools gave is there still. But the arena may have taken a pool's
    // place, and its memory has gone with the context: then the free is refused.
    must(last, "cuCtxSetCurrent", api_.cuCtxSetCurrent(keeper_));
    for (const CUdeviceptr block : pooled_) {
      if (block != 0) {
        api_.cuMemFree(block);
      }
    }
  }

  static constexpr int kAll = INT_MAX;  // beyond all steps' places

  const programs::Driver& api_;
  const Program& program_;
  const Model& end_;
  const std::uint16_t run_;
  CUcontext const keeper_;
  // Each is written by one step, which those that read it come after.
  std::vector<CUcontext> contexts_;
  std::vector<CUstream> streams_;
  std::vector<CUdeviceptr> blocks_;
  std::vector<CUdeviceptr> pooled_;  // of them, from a pool and not freed yet; else 0
  std::vector<std::uint32_t*> slots_;
  std::vector<CUevent> events_;
  std::vector<CUgraphExec> graphs_;
  std::array<std::atomic<int>, kMostThreads> done_{-1, -1, -1, -1};
  std::latch may_leave_{1};

  std::mutex mutex_;
  std::string wrong_;
  std::atomic<bool> failed_{false};
};

}  // namespace

// The slots' memory belongs to a context that no program ends.
Runner::Runner(const programs::Driver& api) : api_(api) {
  programs::must(api, "cuInit", api.cuInit(0));
  programs::must(api, "cuCtxCreate", api.create_context(&keeper_, 0, 0));
  void* host = nullptr;
  programs::must(api, "cuMemAllocHost", api.cuMemAllocHost(&host, std::size_t{kSlotWords} * 4));
  host_ = static_cast<std::uint32_t*>(host);
}

int Runner::devices() const {
  int devices = 0;
  programs::must(api_, "cuDeviceGetCount", api_.cuDeviceGetCount(&devices));
  return std::min(devices, 2);
}

std::string Runner::run(const Program& program) {
  return Run(api_, program, keeper_, host_, ++runs_).what_is_wrong();
}

}  // namespace random_programs
