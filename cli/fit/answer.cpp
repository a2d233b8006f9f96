#include "cli/fit/answer.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

#include "cli/failure.h"
#include "cli/report/wording.h"
#include "cli/run/temporary_folder.h"
#include "config/values.h"

namespace cubfc::cli::fit {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;  // more than any GPU has

// Throws Failure where the run has failed and used what only NVIDIA's driver runs: another run
// would fail, too.
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

// Whether the program ran convolutions of cuDNN's. They take memory for themselves, and only cuDNN
// knows how much.
bool has_convolutions(const Run& run) {
  return std::ranges::any_of(run.processes, [](const ProcessNotes& process) {
    return std::ranges::any_of(process.notes,
                               [](const Note& note) { return note.kind == "convolutions"; });
  });
}

// The largest value of a figure over all processes.
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

  Run run(const Gpu& gpu, const Conditions& conditions) {
    const std::string as = "as on " + gpu.name +
                           (conditions.memory == kPlenty ? "" : ", with its memory") +
                           (conditions.convolutions > 0 ? ", with cuDNN's workspaces" : "");
    tell(as + ": starting");
    const auto seen = [&](const std::vector<ProcessNotes>& processes) {
      if (!processes.empty()) {
        tell(as + ": step " + report::count_text(most(processes, &ProcessNotes::steps)) + ", " +
             report::bytes_text(most(processes, &ProcessNotes::reserved)) + " so far");
      }
    };
    return run_on(program_, gpu, conditions,
                  folder_within(folder_, "run-" + std::to_string(++runs_)), seen);
  }

  // Runs the program as on `gpu`. `exactly`: with the GPU's own memory, since a program may look at
  // how much there is, and since PyTorch gives back what its cache holds before a request fails.
  // Else with plenty of memory. Throws Failure.
  Measured measure(const Gpu& gpu, bool exactly) {
    Measured measured;
    measured.gpu = gpu;
    const double convolutions = program_.convolutions.value_or(0);
    measured.run = run(gpu, {exactly ? gpu.total_bytes : kPlenty, convolutions});
    refuse_what_cannot_run(measured.run);
    std::optional<Need> need = read(gpu, measured.run);
    if (exactly) {
      // Where one of several processes ran out of memory, it may have ended while the others wait
      // for it: the run does not tell whether the program fits.
      const bool is_unclear = need && need->ran_out && measured.run.traces.size() > 1;
      if (!is_unclear) {
        measured.fits = measured.run.ended_well;
      }
      if (need && need->ran_out && (is_unclear || !measured.run.ended_well)) {
        measured.run = run(gpu, {kPlenty, convolutions});
        need = read(gpu, measured.run);
      }
    }
    if (!measured.run.ended_well) {
      const std::string& output = measured.run.output;  // empty, too, where the user has seen it
      throw Failure{"fit: the program ended " + measured.run.ended + ", as on " + gpu.name +
                    (!output.empty()         ? ". It wrote last:\n" + output
                     : program_.shows_output ? ""
                                             : ", and wrote nothing")};
    }
    if (!need) {
      throw Failure{
          "fit: the program asked for no memory of a GPU. Does it use one? PyTorch must be a build "
          "for CUDA 12 or 13; `--show-output` shows what the program writes"};
    }
    measured.need = std::move(*need);
    if (!program_.convolutions && has_convolutions(measured.run)) {
      // How this run ends does not matter: the same program has ended well, and only cuDNN takes
      // more memory now.
      measured.at_most = read(gpu, run(gpu, {kPlenty, 1, true}));
    }
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
  const Telling& telling_;  // called by one thread at a time
  std::mutex mutex_;
  std::atomic<std::size_t> runs_{0};
};

// Measures the program as on each of `gpus`, two at a time: most of a run is Python's, which uses
// one processor. Throws the first failure.
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
        next = gpus.size();  // the other GPUs would fail alike
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

// Whether one run tells of both GPUs.
bool are_alike(const Gpu& one, const Gpu& other, bool exactly) {
  static constexpr int kNewest = 10;  // generations from this on count as one
  const auto generation = [](const Gpu& gpu) { return std::min(gpu.capability / 10, kNewest); };
  return exactly ? one.is_one_like(other) && one.total_bytes == other.total_bytes
                 : generation(one) == generation(other);
}

Fits::Answer answer_of(bool fits_at_best, bool fits_at_worst) {
  return !fits_at_best   ? Fits::Answer::kNo
         : fits_at_worst ? Fits::Answer::kYes
                         : Fits::Answer::kPerhaps;
}

std::uint64_t available_on(const Gpu& gpu) {
  return gpu.total_bytes - std::min(gpu.total_bytes, gpu.context_bytes);
}

// `figure`: one of Need's, of bytes that are needed.
template <typename Figure>
Fits compared(const Gpu& gpu, const Measured& measured, Figure Need::*figure) {
  const std::optional<std::uint64_t> least = measured.need.*figure;
  const std::optional<std::uint64_t> most =
      measured.at_most ? std::optional<std::uint64_t>((*measured.at_most).*figure) : least;
  if (!least || !most) {
    return {};
  }
  const auto left = [&](std::uint64_t needed) {
    return static_cast<std::int64_t>(available_on(gpu)) - static_cast<std::int64_t>(needed);
  };
  const Nccl nccl = measured.nccl_on(gpu);
  Fits fits;
  fits.most_left = left(*least + nccl.least);
  fits.least_left = left(std::max(*least, *most) + nccl.most + measured.beside(gpu));
  fits.answer = answer_of(fits.most_left >= 0, fits.least_left >= 0 && !measured.is_cut_short());
  return fits;
}

}  // namespace

double learn_convolutions(const Program& program, const Gpu& gpu, const std::string& recording,
                          const std::string& folder, const Telling& telling) {
  const std::uint64_t recorded = recorded_peak(recording);
  Program tried = program;
  Runs runs(tried, folder_within(folder, "learn"), telling);
  const auto peak_with = [&](double share) {
    tried.convolutions = share;
    return runs.measure(gpu, false).need.allocated;
  };
  double least = 0;
  double most = 1;
  std::uint64_t at_least = peak_with(least);
  std::uint64_t at_most = peak_with(most);
  const std::string of_recording = config::quoted(recording, 200) + " has a peak of " +
                                   report::bytes_text(recorded) + ", and the program one of ";
  const std::uint64_t tolerance = at_least / 100;  // a hundredth of the peak without cuDNN
  if (recorded + tolerance < at_least || recorded > at_most + tolerance) {
    throw Failure{"fit: --learn: " + of_recording + report::bytes_text(at_least) + " to " +
                  report::bytes_text(at_most) +
                  ", whatever cuDNN takes. Was it recorded of this program, with these arguments, "
                  "on a GPU that --gpu names?"};
  }
  if (at_least == at_most) {
    throw Failure{
        "fit: --learn: no convolution of cuDNN's is at the peak: there is nothing to learn. " +
        of_recording + report::bytes_text(at_least)};
  }
  const std::uint64_t wanted = std::clamp(recorded, at_least, at_most);
  // The peak rises in straight lines with the share: in one, or in several one after the other.
  for (int n = 0; n < 3 && at_most > at_least; ++n) {
    const double share = least + (most - least) * static_cast<double>(wanted - at_least) /
                                     static_cast<double>(at_most - at_least);
    const std::uint64_t peak = peak_with(share);
    if (peak <= wanted) {
      least = share;
      at_least = peak;
    } else {
      most = share;
      at_most = peak;
    }
    if (std::max(peak, wanted) - std::min(peak, wanted) < wanted / 1000) {
      return share;
    }
  }
  return most;
}

Answer answer_for(const Program& program, const std::vector<Gpu>& gpus, bool exactly,
                  const std::string& folder, const Telling& telling) {
  std::vector<Gpu> ones;            // one GPU for all that are alike
  std::vector<std::size_t> of_gpu;  // for each of `gpus`, the index in `ones`
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
    const Measured& measured = answer.measured[index];
    const std::uint64_t available = available_on(gpu);
    Verdict verdict{gpu,
                    index,
                    compared(gpu, measured, &Need::device),
                    compared(gpu, measured, &Need::allocated),
                    compared(gpu, measured, &Need::bfc),
                    compared(gpu, measured, &Need::vmm)};
    // Only a run tells whether PyTorch's cache can give back enough.
    std::optional<bool> fits = measured.fits;
    if (!fits && verdict.cache.most_left < 0 && measured.need.allocated <= available) {
      fits = runs.run(gpu, {gpu.total_bytes, program.convolutions.value_or(0)}).ended_well;
    }
    if (fits && measured.nccl_on(gpu).most == 0) {
      // The run knew what all processes took, but not what cuDNN takes.
      const bool fits_at_worst = verdict.cache.least_left >= 0 || !measured.at_most;
      verdict.cache.by_trial =
          *fits != (verdict.cache.most_left >= 0) || *fits != (verdict.cache.least_left >= 0);
      verdict.cache.answer = answer_of(*fits, fits_at_worst && !measured.is_cut_short());
    }
    answer.verdicts.push_back(std::move(verdict));
  }
  return answer;
}

}  // namespace cubfc::cli::fit
