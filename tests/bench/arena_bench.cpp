// The arena's benchmark: one run over all inputs. See arguments.h for what it takes.
#include <unistd.h>

#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "arguments.h"
#include "inputs.h"
#include "report.h"
#include "results.h"

namespace cubfc::bench {
namespace {

// The least capacity of more live blocks takes minutes, first fit with more of them hours.
constexpr std::uint64_t kMostBlocksForLeast = 100'000;
constexpr std::uint64_t kManyAllocations = 1'000'000;

// While it lives the process has a second thread: without one, glibc leaves out the atomic
// instructions of a mutex, which no program with a GPU ever sees.
class SecondThread {
 public:
  SecondThread() : thread_([this] { wait(); }) {}
  ~SecondThread() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return over_; });
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

// One line on standard error that is written over, if a person is there to read it.
class Progress {
 public:
  void say(const std::string& what) const {
    if (terminal_) {
      std::fprintf(stderr, "\r\033[K%s", what.c_str());
    }
  }
  ~Progress() { say(""); }
  Progress() = default;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  bool terminal_ = isatty(STDERR_FILENO) == 1;
};

class Run {
 public:
  Run(Arguments arguments, std::vector<Workload> inputs)
      : arguments_(std::move(arguments)),
        inputs_(std::move(inputs)),
        speed_{arguments_.rounds, arguments_.quick ? 1e6 : 20e6} {}

  // Nothing is so called.
  bool selects_nothing() const {
    bool any = selected("jitter") || selected("threads") || selected("regions");
    for (const Workload& workload : inputs_) {
      any = any || wanted(workload);
    }
    return !any;
  }

  Results measure() {
    for (const Workload& workload : inputs_) {
      if (wanted(workload)) {
        results_.inputs.push_back(measure_input(workload));
      }
    }
    summarize_training();
    if (selected("jitter")) {
      measure_jitter();
    }
    if (selected("threads")) {
      progress_.say("threads");
      results_.threads = measure_threads(arguments_.rounds, arguments_.quick ? 5e6 : 100e6);
    }
    if (selected("regions")) {
      progress_.say("regions");
      results_.regions_of = "live_10000";
      for (const Workload& workload : inputs_) {
        if (workload.name == results_.regions_of) {
          results_.regions = measure_regions(workload, speed_);
        }
      }
    }
    return results_;
  }

 private:
  bool selected(const char* section) const {
    return arguments_.only.empty() || arguments_.only == section;
  }
  bool wanted(const Workload& workload) const {
    return workload.name.find(arguments_.only) != std::string::npos;
  }

  InputResult measure_input(const Workload& workload) const {
    InputResult result;
    result.workload = &workload;
    progress_.say(workload.name + ": pairs");
    result.pairs = measure_pairs(workload, speed_);
    progress_.say(workload.name + ": latency");
    result.latencies = measure_latencies(
        workload, workload.allocations > kManyAllocations ? 3 : arguments_.rounds);
    result.host_bytes_a_block = host_bytes_a_block(workload);
    for (const Fitter fitter : kFitters) {
      progress_.say(workload.name + ": memory, " + describe(fitter));
      const bool too_slow =
          fitter == Fitter::kFirstFit && workload.peak_live_blocks > kMostBlocksForFirstFit;
      result.fits.push_back(
          too_slow
              ? Fit{}
              : measure_fit(fitter, workload, workload.peak_live_blocks <= kMostBlocksForLeast));
    }
    return result;
  }

  void summarize_training() {
    Summary sum;
    for (const InputResult& input : results_.inputs) {
      if (input.workload->kind != Kind::kTraining || !input.pairs.contains(kByHandle) ||
          !input.pairs.contains(kLocked) || !input.pairs.contains(kAsTheShim)) {
        continue;
      }
      ++sum.inputs;
      sum.by_handle += std::log(input.pairs.at(kByHandle).to_floor);
      sum.locked += std::log(input.pairs.at(kLocked).to_locked_floor);
      sum.as_the_shim += std::log(input.pairs.at(kAsTheShim).to_locked_floor);
      sum.locked_ns += std::log(input.pairs.at(kLocked).ns);
    }
    if (sum.inputs > 0) {
      for (double* value : {&sum.by_handle, &sum.locked, &sum.as_the_shim, &sum.locked_ns}) {
        *value = std::exp(*value / static_cast<double>(sum.inputs));
      }
      results_.training = sum;
    }
  }

  // Over the recorded traces, or over what resembles them when there are none.
  void measure_jitter() {
    const auto pick = [this](auto matches) {
      for (const Workload& workload : inputs_) {
        if (matches(workload)) {
          results_.jittered_of.push_back(&workload);
        }
      }
    };
    pick([](const Workload& w) { return w.kind != Kind::kSynthetic; });
    if (results_.jittered_of.empty()) {
      pick([](const Workload& w) { return w.name.starts_with("training_like"); });
    }
    results_.jittered = measure_jittered(
        results_.jittered_of, arguments_.jitter,
        [this](const std::string& name) { progress_.say("jittered means: " + name); });
    for (const Workload* workload : results_.jittered_of) {
      progress_.say("retrievable memory: " + workload->name);
      results_.retrievable.push_back(measure_retrievable(*workload));
    }
  }

  Arguments arguments_;
  std::vector<Workload> inputs_;
  SpeedSettings speed_;
  Progress progress_;
  Results results_;
};

int complain(const std::string& what) {
  std::fprintf(stderr, "arena_bench: %s\n", what.c_str());
  return 1;
}

int complain_of_arguments(const std::string& what) {
  complain(what);
  std::fprintf(stderr, "Try 'arena_bench --help'.\n");
  return 2;
}

int run(const Arguments& arguments) {
  const char* const folder = std::getenv("CUBFC_TRACES");
  std::vector<Workload> inputs = recorded_inputs(folder == nullptr ? "" : folder);
  std::string names;
  for (Workload& workload : synthetic_inputs(arguments.quick)) {
    inputs.push_back(std::move(workload));
  }
  for (const Workload& workload : inputs) {
    names += " " + workload.name;
  }
  Run bench(arguments, std::move(inputs));
  if (bench.selects_nothing()) {
    return complain_of_arguments("nothing is called '" + arguments.only +
                                 "'; there are: jitter threads regions" + names);
  }
  const SecondThread second_thread;
  const Results results = bench.measure();
  print_tables(results);
  if (!arguments.json_file.empty() && !write_json(results, arguments, arguments.json_file)) {
    return complain(arguments.json_file + " cannot be written");
  }
  for (const InputResult& input : results.inputs) {
    for (std::size_t i = 0; i < input.fits.size(); ++i) {
      if (input.fits[i].overlaps > 0) {
        return complain(input.workload->name + ", " + describe(kFitters[i]) + ": " +
                        std::to_string(input.fits[i].overlaps) + " blocks were handed out twice");
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace cubfc::bench

int main(int argc, char** argv) {
  using namespace cubfc::bench;
  try {
    const auto parsed = parse_arguments(argc, argv);
    if (const auto* wrong = std::get_if<std::string>(&parsed)) {
      return complain_of_arguments(*wrong);
    }
    const auto& arguments = std::get<Arguments>(parsed);
    if (arguments.help) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    return run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "arena_bench: %s\n", error.what());
    return 1;
  }
}
