// One run of the program on the software GPU, as on one kind of GPU, and what the run left to read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/fit/gpus.h"

namespace cubfc::cli::fit {

// The program, the libraries that it runs with, and when a run of it ends.
struct Program {
  std::vector<std::string> words;
  std::string path;
  std::string library;       // libcubfc.so
  std::string software_gpu;  // the folder with its libcuda.so.1
  int gpus = 1;              // how many GPUs the program sees
  int steps = 0;             // see the command's --steps and --seconds
  double seconds = 0;
  bool shows_output = false;
  bool random_weights = false;  // of Hugging Face's models
  // What cuDNN's convolutions take for themselves, as a share of copies of all that they read and
  // write. Nothing: not known, and the answer is a range.
  std::optional<double> convolutions;
};

// An entry of the program's notes (cubfc_fit/notes.py): mostly something that is not known and that
// the answer rests on.
struct Note {
  std::string kind;  // "read", "size", "workspace", ...
  std::string what;
  std::string line;  // "train.py:12"
  std::string detail;
  std::uint64_t count = 0;
  std::uint64_t elements = 0;
};

// The notes of one process of the program: one that has imported PyTorch, or a library that cannot
// run here.
struct ProcessNotes {
  std::string pid;
  std::string state;  // why it ended: "steps", "seconds", "waits", "ended", "failed"; or "running"
  std::string waited_at;  // the last line of a loop that read made-up values; empty: none
  std::vector<std::uint64_t> communicators;  // for each of NCCL's: among how many GPUs
  std::string torch;
  std::string cuda;
  std::uint64_t allocated = 0;  // the most bytes at once on all GPUs, by PyTorch's statistics
  std::uint64_t reserved = 0;
  std::uint64_t steps = 0;
  std::uint64_t peak_step = 0;
  double seconds = 0;
  double peak_seconds = 0;
  std::vector<Note> notes;

  // Whether cubfc_fit has ended the process, or made-up values have ended a loop in it ("waits"):
  // then its exit status says nothing.
  bool was_ended() const { return state == "steps" || state == "seconds" || state == "waits"; }
};

struct Run {
  bool ended_well = false;
  std::string ended;  // in words: "with status 1", "by SIGKILL"
  std::vector<ProcessNotes> processes;
  std::vector<std::string> traces;   // paths, of processes that have allocated: see pid_in()
  std::vector<std::string> refused;  // paths of libraries that asked for NVIDIA's private tables
  std::string output;                // the last lines that the program wrote
};

// The id of the process that has written this file, a trace or notes, in the folder of a run.
std::string pid_in(const std::string& path);

// Called twice a second, with the notes of the processes so far.
using Seen = std::function<void(const std::vector<ProcessNotes>&)>;

// After this call, SIGINT, SIGTERM and SIGHUP end all runs, with the processes that the programs
// have started. run_on() then throws Failure.
void end_runs_on_signals();

// The memory that the program gets, and what cuDNN is taken to need for itself.
struct Conditions {
  std::uint64_t memory = 0;   // bytes, which may be more than the GPU has
  double convolutions = 0;    // see Program::convolutions
  bool is_once_more = false;  // an earlier run has shown the program's output: not shown again
};

// Runs the program and waits for its end. Files go into `folder`, which must exist and be empty.
// Throws Failure where the program cannot be started, or a signal ends the run.
Run run_on(const Program& program, const Gpu& gpu, const Conditions& conditions,
           const std::string& folder, const Seen& seen);

}  // namespace cubfc::cli::fit
