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
  // In words: its exit status, the signal's name, "late".
  std::string ended;
  bool is_late = false;
  double seconds = 0;
  Lines out;
  Lines err;
  Lines said;  // cubfc's messages, but the summary
  // As its summaries have them.
  struct Counts {
    std::uint64_t allocations = 0;
    std::uint64_t driver_calls = 0;
  };
  std::optional<Counts> counts;
};

// Without cubfc where `library` is empty, also where it is in the environment already. In a session
// of its own, which is ended when it takes longer. Throws Failure.
Run run_once(const std::vector<std::string>& program, const std::string& path,
             const Variables& settings, const std::string& library, const std::string& input,
             std::chrono::duration<double> most);

}  // namespace cubfc::cli::compare
