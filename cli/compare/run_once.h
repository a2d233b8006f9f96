// One run of a program, from its start to its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/compare/lines.h"
#include "cli/run/settings.h"

namespace cubfc::cli::compare {

struct Run {
  // In words: the exit status ("1"), the signal's name ("SIGSEGV"), or "late".
  std::string ended;
  bool is_late = false;
  double seconds = 0;
  Lines out;
  Lines err;
  Lines said;  // cubfc's messages, without the summaries
  // The sums over the summaries of the run's processes; nothing where there was no summary.
  struct Counts {
    std::uint64_t allocations = 0;
    std::uint64_t driver_calls = 0;
  };
  std::optional<Counts> counts;
};

// Runs the program in a session of its own, with `input` as its stdin, and `settings` in place of
// all variables of cubfc. Preloads `library`; where that is empty, takes any libcubfc.so out of
// LD_PRELOAD. Kills a run that takes longer than `most`. Throws Failure.
Run run_once(const std::vector<std::string>& program, const std::string& path,
             const Variables& settings, const std::string& library, const std::string& input,
             std::chrono::duration<double> most);

}  // namespace cubfc::cli::compare
