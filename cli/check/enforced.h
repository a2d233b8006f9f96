// Who limits the GPU memory of a process, or of a program: what `cubfc check --enforced` tells. The
// driver is asked by a child of the command's (nvml_limits.h), whose answer is passed in.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/check/subject.h"

namespace cubfc::cli::check {

struct Enforcer {
  std::string by;     // "cubfc", "kernel", "driver", "MPS"
  std::string limit;  // "CUBFC_MEM_LIMIT 8GiB (CUBFC_MEM_LIMIT in /etc/cubfc.conf)"
};

struct Enforcement {
  std::vector<Enforcer> enforcers;   // empty: nobody limits it
  std::vector<std::string> notes;    // what looks like a limit and is none, and why
  std::vector<std::string> unknown;  // what may limit it and cannot be asked, and why
};

// `driver`: what nvml_limits() told of the same cgroup.
Enforcement find_enforcers(const Subject& subject, const nlohmann::ordered_json& driver);

}  // namespace cubfc::cli::check
