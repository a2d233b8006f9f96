// On which GPUs the program fits: which runs find that out, and what follows from them.
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

// Whether the program fits on one GPU with one allocator.
struct Fits {
  enum class Answer : std::uint8_t { kNotKnown, kNo, kPerhaps, kYes };
  Answer answer = Answer::kNotKnown;
  // The bytes that the GPU has beyond what is needed; negative: what it lacks. `most_left` is by
  // the least that may be needed, `least_left` by the most; they are equal where all is known. With
  // `by_trial`, what is needed includes what PyTorch's cache holds only because there is room.
  std::int64_t most_left = 0;
  std::int64_t least_left = 0;
  bool by_trial = false;  // `answer` is from a run with so much memory; the bytes say otherwise
};

struct Verdict {
  Gpu gpu;
  std::size_t measured = 0;  // which of Answer::measured
  Fits cache;                // PyTorch's cache, or the driver where the program has none
  Fits none;                 // without a cache
  Fits bfc;                  // under cubfc, without PyTorch's cache
  Fits vmm;
};

// What was found out about the program as on one GPU.
struct Measured {
  Gpu gpu;
  Run run;  // the run that ended well: with the GPU's own memory, else with as much as wanted
  Need need;
  std::optional<Need> at_most;  // with all that cuDNN may take for itself, where it takes any
  std::optional<bool> fits;     // whether it ended well with the GPU's own memory, where known

  // The notes of the process that needs most; nullptr where there are none.
  const ProcessNotes* notes() const {
    return need.process < run.processes.size() ? &run.processes[need.process] : nullptr;
  }
  // Whether the program ended after a value was made up to end a loop: then at least this is
  // needed.
  bool is_cut_short() const {
    return std::ranges::any_of(
        run.processes, [](const ProcessNotes& process) { return process.state == "waits"; });
  }
  // What the program's other processes take of the same GPU, with their contexts. They need not
  // take all of that at the same time.
  std::uint64_t beside(const Gpu& one) const {
    return need.beside + need.processes_beside * one.context_bytes;
  }
  // What NCCL takes of a GPU.
  Nccl nccl_on(const Gpu& one) const {
    return notes() != nullptr ? nccl_of(notes()->communicators, one) : Nccl{};
  }
};

struct Answer {
  std::vector<Measured> measured;
  std::vector<Verdict> verdicts;  // in the order in which the GPUs were given
};

// Called with what is being done, for a line of progress; by one thread at a time.
using Telling = std::function<void(const std::string&)>;

// Finds the Program::convolutions with which the program's peak of tensors is that of `recording`,
// which was made of the program on a GPU. Takes a few runs. Throws Failure where there is no such
// share.
double learn_convolutions(const Program& program, const Gpu& gpu, const std::string& recording,
                          const std::string& folder, const Telling& telling);

// Runs the program, and answers for each of `gpus`. `exactly`: runs it as on each of them, with the
// GPU's memory, and where that does not do, once more with as much as the program wants. Else runs
// it as on one of each generation, with as much as it wants; the others of a generation differ only
// in the sizes of small buffers. Files go into `folder`. Throws Failure, with what the program
// wrote, where it cannot be run to its peak.
Answer answer_for(const Program& program, const std::vector<Gpu>& gpus, bool exactly,
                  const std::string& folder, const Telling& telling);

}  // namespace cubfc::cli::fit
