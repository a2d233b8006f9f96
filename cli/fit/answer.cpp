#include "cli/fit/answer.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/failure.h"
#include "cli/report/wording.h"

namespace cubfc::cli::fit {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;  // more than any GPU has

std::string new_folder(const std::string& folder, std::size_t number) {
  std::string path = folder + "/run-" + std::to_string(number);
  std::error_code failed;
  fs::create_directory(path, failed);
  if (failed) {
    throw Failure{"fit: no folder " + path + " can be made: " + failed.message()};
  }
  return path;
}

// What no other way of running it would mend.
void refuse_what_cannot_run(const Run& run) {
  std::string names;
  const auto add = [&](const std::string& name) {
    if (names.find(name) == std::string::npos) {
      names += (names.empty() ? "" : ", ") + name;
    }
  };
  for (const ProcessNotes& process : run.processes) {
    for (const Note& note : process.notes) {
      if (note.kind == "refused") {
        add(note.what);
      }
    }
  }
  for (const std::string& path : run.refused) {
    add(fs::path(path).filename());
  }
  if (!names.empty() && !run.ended_well) {
    throw Failure{
        "fit: the program uses " + names +
        ", which has NVIDIA's CUDA runtime inside and runs on NVIDIA's driver only. What it "
        "needs can be recorded on a GPU: `cubfc run --observe --trace FILE`, then `cubfc "
        "replay FILE --total SIZE`\n" +
        run.output};
  }
}

// Of all processes.
std::uint64_t most(const std::vector<ProcessNotes>& processes,
                   std::uint64_t ProcessNotes::*figure) {
  std::uint64_t found = 0;
  for (const ProcessNotes& process : processes) {
    found = std::max(found, process.*figure);
  }
  return found;
}

class Runs {
 public:
  Runs(const Program& program, const std::string& folder, const Telling& telling)
      : program_(program), folder_(folder), telling_(telling) {}

  Run run(const Gpu& gpu, std::uint64_t memory) {
    const std::string as = "as on " + gpu.name + (memory == kPlenty ? "" : ", with its memory");
    tell(as + ": starting");
    const auto seen = [&](const std::vector<ProcessNotes>& processes) {
      if (!processes.empty()) {
        tell(as + ": step " + report::count_text(most(processes, &ProcessNotes::steps)) + ", " +
             report::bytes_text(most(processes, &ProcessNotes::reserved)) + " so far");
      }
    };
    return run_on(program_, gpu, memory, new_folder(folder_, ++runs_), seen);
  }

  // With the GPU's own memory, if `exactly`: a program may look at how much there is, and PyTorch
  // gives back what its cache holds before a request fails.
  Measured measure(const Gpu& gpu, bool exactly) {
    Measured measured{gpu, run(gpu, exactly ? gpu.total_bytes : kPlenty), {}, std::nullopt};
    refuse_what_cannot_run(measured.run);
    std::optional<Need> need = read(gpu, measured.run);
    if (exactly) {
      measured.fits = measured.run.ended_well;
      if (!measured.run.ended_well && need && need->ran_out) {
        measured.run = run(gpu, kPlenty);
        need = read(gpu, measured.run);
      }
    }
    if (!measured.run.ended_well) {
      throw Failure{"fit: the program ended " + measured.run.ended + ", as on " + gpu.name +
                    ". It wrote last:\n" + measured.run.output};
    }
    if (!need) {
      throw Failure{
          "fit: the program asked for no memory of a GPU. Does it use one? PyTorch must be a build "
          "for CUDA 12 or 13; `--show-output` shows what the program writes"};
    }
    measured.need = std::move(*need);
    return measured;
  }

 private:
  std::optional<Need> read(const Gpu& gpu, const Run& run) {
    tell("as on " + gpu.name + ": reading what it asked for");
    return need_of(run);
  }
  void tell(const std::string& what) {
    const std::scoped_lock lock(mutex_);
    telling_(what);
  }

  const Program& program_;
  const std::string folder_;
  const Telling& telling_;  // by one thread at a time
  std::mutex mutex_;
  std::atomic<std::size_t> runs_{0};
};

// As on each of these, two at a time: most of a run is Python's, which uses one processor.
std::vector<Measured> measure_all(Runs& runs, const std::vector<Gpu>& gpus, bool exactly) {
  std::vector<Measured> measured(gpus.size());
  std::vector<std::exception_ptr> failures(gpus.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t n = next++; n < gpus.size(); n = next++) {
      try {
        measured[n] = runs.measure(gpus[n], exactly);
      } catch (...) {
        failures[n] = std::current_exception();
        next = gpus.size();  // it would be the same
      }
    }
  };
  {
    const std::size_t at_once = std::thread::hardware_concurrency() > 1 ? 2 : 1;
    std::vector<std::jthread> threads;
    for (std::size_t n = 0; n < std::min(at_once, gpus.size()); ++n) {
      threads.emplace_back(work);
    }
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
  return measured;
}

// One GPU for all that behave alike.
bool are_alike(const Gpu& one, const Gpu& other, bool exactly) {
  static constexpr int kNewest = 10;  // of those that are told apart
  const auto generation = [](const Gpu& gpu) { return std::min(gpu.capability / 10, kNewest); };
  return exactly ? one.is_one_like(other) && one.total_bytes == other.total_bytes
                 : generation(one) == generation(other);
}

Fits compared(std::uint64_t available, std::optional<std::uint64_t> needed) {
  if (!needed) {
    return {};
  }
  return {true, *needed <= available,
          static_cast<std::int64_t>(available) - static_cast<std::int64_t>(*needed), false};
}

std::uint64_t available_on(const Gpu& gpu) {
  return gpu.total_bytes - std::min(gpu.total_bytes, gpu.context_bytes);
}

}  // namespace

Answer answer_for(const Program& program, const std::vector<Gpu>& gpus, bool exactly,
                  const std::string& folder, const Telling& telling) {
  std::vector<Gpu> ones;            // one of those that are alike
  std::vector<std::size_t> of_gpu;  // which of them
  for (const Gpu& gpu : gpus) {
    const auto like =
        std::ranges::find_if(ones, [&](const Gpu& one) { return are_alike(one, gpu, exactly); });
    of_gpu.push_back(static_cast<std::size_t>(like - ones.begin()));
    if (like == ones.end()) {
      ones.push_back(gpu);
    }
  }
  Runs runs(program, folder, telling);
  Answer answer{measure_all(runs, ones, exactly), {}};
  for (std::size_t n = 0; n < gpus.size(); ++n) {
    const Gpu& gpu = gpus[n];
    const std::size_t index = of_gpu[n];
    const Need& need = answer.measured[index].need;
    const std::uint64_t available = available_on(gpu);
    Verdict verdict{gpu,
                    index,
                    compared(available, need.device),
                    compared(available, need.allocated),
                    compared(available, need.bfc),
                    compared(available, need.vmm)};
    if (const std::optional<bool> fits = answer.measured[index].fits) {
      verdict.cache.by_trial = *fits != verdict.cache.fits;
      verdict.cache.fits = *fits;
    } else if (!verdict.cache.fits && need.allocated <= available) {
      // Only a run tells what PyTorch's cache can give back.
      verdict.cache.fits = runs.run(gpu, gpu.total_bytes).ended_well;
      verdict.cache.by_trial = true;
    }
    answer.verdicts.push_back(std::move(verdict));
  }
  return answer;
}

}  // namespace cubfc::cli::fit
