// `cubfc check --enforced`: prints who limits the GPU memory of a process, or of a program.
#pragma once

#include <chrono>
#include <string>

namespace cubfc::cli::check {

struct EnforcedWords {
  std::string whom;               // a process's number, or a program's name; empty: any program
  std::chrono::seconds patience;  // how long NVML may take
  bool json;
};

// Throws Failure without a message where nobody limits it (kFailed) or that cannot be known (3),
// and with one where there is no such process or program (kUsage).
void tell_enforced(const EnforcedWords& words);

}  // namespace cubfc::cli::check
