// On which GPUs the program fits: makes the runs that this takes, and concludes from them.
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
  // The bytes that the GPU has beyond what is needed; negative: what it lacks. `most_left` is for
  // the least that may be needed, `least_left` for the most. They are equal where all is known.
  // They may be negative although the program fits, because PyTorch's cache holds more where there
  // is room: only a trial shows that.
  std::int64_t most_left = 0;
  std::int64_t least_left = 0;
  bool by_trial = false;  // `answer` is of a run with the GPU's own memory; the bytes contradict it
};

struct Verdict {
  Gpu gpu;
  std::size_t measured = 0;  // index in Answer::measured
  Fits cache;                // PyTorch's cache, or the driver where the program has none
  Fits none;                 // without a cache
  Fits bfc;                  // under cubfc, without PyTorch's cache
  Fits vmm;
};

// What was found out about the program as on one GPU.
struct Measured {
  Gpu gpu;
  Run run;  // ended well: with the GPU's own memory, or where that was too little, with plenty
  Need need;
  // `need` if cuDNN takes all that it may for itself. Nothing: no convolutions, or a known share.
  std::optional<Need> at_most;
  std::optional<bool> fits;  // whether a run with the GPU's own memory ended well; nothing: unknown

  // The notes of Need::process; nullptr where there are none.
  const ProcessNotes* notes() const {
    return need.process < run.processes.size() ? &run.processes[need.process] : nullptr;
  }
  // Whether the program was not seen to its own end, because a loop got made-up values: it may need
  // more than this.
  bool is_cut_short() const {
    return std::ranges::any_of(
        run.processes, [](const ProcessNotes& process) { return process.state == "waits"; });
  }
  // What the program's other processes take of the same GPU, with their contexts: each at its own
  // peak, although the peaks may come at different times.
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

// Finds the Program::convolutions with which the program's tensors have the same peak as in
// `recording`, which was made of the program on a GPU. Takes a few runs. Throws Failure where no
// share gives that peak, or each gives the same.
double learn_convolutions(const Program& program, const Gpu& gpu, const std::string& recording,
                          const std::string& folder, const Telling& telling);

// Runs the program, and answers for each of `gpus`. `exactly`: runs it as on each of them, with
// that GPU's memory; if that is too little, runs it once more with plenty. Otherwise runs it with
// plenty, as on one GPU of each generation, because the others of a generation differ only in the
// sizes of small buffers. Files go into `folder`. Throws Failure, with what the program wrote last,
// where it cannot be run to its peak.
Answer answer_for(const Program& program, const std::vector<Gpu>& gpus, bool exactly,
                  const std::string& folder, const Telling& telling);

}  // namespace cubfc::cli::fit
