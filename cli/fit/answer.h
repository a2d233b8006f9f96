// Which GPUs the program fits on: which runs that takes, and what follows from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/fit/gpus.h"
#include "cli/fit/nccl.h"
#include "cli/fit/need.h"
#include "cli/fit/program_run.h"

namespace cubfc::cli::fit {

// Under one allocator on one GPU.
struct Fits {
  enum class Answer : std::uint8_t { kNotKnown, kNo, kPerhaps, kYes };
  Answer answer = Answer::kNotKnown;
  // That the GPU has more than is needed, or, negative, less: of the least that may be needed and
  // of the most, which are the same where all is known. Where `by_trial`, with what PyTorch's cache
  // holds only because there is room for it.
  std::int64_t most_left = 0;
  std::int64_t least_left = 0;
  bool by_trial = false;  // the program was run with that much memory
};

struct Verdict {
  Gpu gpu;
  std::size_t measured = 0;  // which of Answer::measured
  Fits cache;                // PyTorch's cache, or the driver where the program has none
  Fits none;                 // without a cache
  Fits bfc;                  // under cubfc, without PyTorch's cache
  Fits vmm;
};

// The program as on one GPU.
struct Measured {
  Gpu gpu;
  Run run;  // that ended: with the GPU's own memory, else with as much as the program wants
  Need need;
  std::optional<Need> at_most;  // where cuDNN takes memory for itself: with all that it may take
  std::optional<bool> fits;     // whether it ended with the GPU's own memory, where that was tried

  // Of the process that needs most, if it has PyTorch.
  const ProcessNotes* notes() const {
    return need.process < run.processes.size() ? &run.processes[need.process] : nullptr;
  }
  // Whether it ended after a value was made up to end a loop: what is needed is at least this.
  bool is_cut_short() const {
    return std::ranges::any_of(
        run.processes, [](const ProcessNotes& process) { return process.state == "waits"; });
  }
  // What the program's other processes on the same GPU take of it, with their contexts: not all of
  // that must be at the same time.
  std::uint64_t beside(const Gpu& one) const {
    return need.beside + need.processes_beside * one.context_bytes;
  }
  // What NCCL takes of this GPU, or one like it.
  Nccl nccl_on(const Gpu& one) const {
    return notes() != nullptr ? nccl_of(notes()->communicators, one) : Nccl{};
  }
};

struct Answer {
  std::vector<Measured> measured;
  std::vector<Verdict> verdicts;  // as the GPUs were given
};

// Told what is being done, for a line of progress.
using Telling = std::function<void(const std::string&)>;

// Program::convolutions, as a recording of the program on a GPU has it: what makes the peak of
// tensors that high. Takes a few runs. Throws Failure where no share does.
double learn_convolutions(const Program& program, const Gpu& gpu, const std::string& recording,
                          const std::string& folder, const Telling& telling);

// `exactly`: as on each of the GPUs, with its memory, and once more with as much as the program
// wants where that does not do; else as on one of each generation, which others are like but for
// the sizes of small buffers, with as much as it wants. Files go into `folder`. Throws Failure
// where the program cannot be run to its peak, with what it wrote.
Answer answer_for(const Program& program, const std::vector<Gpu>& gpus, bool exactly,
                  const std::string& folder, const Telling& telling);

}  // namespace cubfc::cli::fit
