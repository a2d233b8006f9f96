// Who limits the device memory of a process, or of a program that is started here: what
// `cubfc check --enforced` tells. Looks at files and at environments; the driver is asked by a
// child of the command's (nvml_limits.h), whose answer is passed in.
#pragma once

#include <sys/types.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace cubfc::cli::check {

// Whom it is asked of.
struct Subject {
  std::string name;                                // for people
  std::vector<std::string> environment;            // "NAME=value", as it was started, or would be
  std::string root;                                // its root folder, without a slash at the end
  std::string cgroups;                             // the text of its /proc/PID/cgroup
  std::optional<std::string> why_not_loaded = {};  // the library; nothing: it is
  bool has_xla = false;                            // with a GPU runtime of XLA's or TensorFlow's
};

// A process that runs. Throws Failure where there is none of that number, or it cannot be looked
// at.
Subject subject_of_process(pid_t process);
// A program that would be started with this command's environment, by its name; empty: any.
// `library`: for what speaks against preloading it.
Subject subject_of_program(const std::string& name, const std::string& library);

struct Enforcer {
  std::string by;     // "cubfc", "kernel", "driver", "MPS"
  std::string limit;  // "CUBFC_MEM_LIMIT 8GiB (CUBFC_MEM_LIMIT in /etc/cubfc.conf)"
};

struct Enforcement {
  std::vector<Enforcer> enforcers;  // none: nobody
  std::vector<std::string> notes;   // what one might take for a limit and is none, and why
};

// `driver`: what nvml_limits() told of the same cgroup.
Enforcement find_enforcers(const Subject& subject, const nlohmann::ordered_json& driver);

// The path of the process's own cgroup (version 2), from the text of its /proc/PID/cgroup; empty
// where it is in none.
std::string cgroup_path(const std::string& cgroups);

}  // namespace cubfc::cli::check
