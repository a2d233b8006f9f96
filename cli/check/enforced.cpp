#include "cli/check/enforced.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "cli/failure.h"
#include "cli/kernel_driver.h"
#include "cli/report/wording.h"
#include "cli/run/program.h"
#include "cli/run/settings.h"
#include "config/environment.h"
#include "config/options.h"
#include "config/xla_runtimes.h"
#include "shim/policy_on_disk.h"

namespace cubfc::cli::check {
namespace {

using nlohmann::ordered_json;
using report::bytes_text;

constexpr std::uint64_t kOldestDriver = 525;

// Of a file of /proc, /sys or /etc; nothing where it cannot be read, errno says why.
std::optional<std::string> text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return std::nullopt;
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::string> split(std::string_view text, char end) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find(end), text.size());
    parts.emplace_back(text.substr(0, length));
    text.remove_prefix(std::min(text.size(), length + 1));
  }
  return parts;
}

// Of the first entry of that name; empty where there is none.
std::string value_of(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.starts_with(name + "=")) {
      return entry.substr(name.size() + 1);
    }
  }
  return "";
}

bool is_our_library(std::string_view path) {
  return path.substr(path.rfind('/') + 1).starts_with("libcubfc.so");
}

// In LD_PRELOAD, or in the file that preloads for all programs; empty where neither names it.
std::string library_that_is_named(const Subject& subject) {
  std::string lists = value_of(subject.environment, "LD_PRELOAD") + " " +
                      text_of(subject.root + "/etc/ld.so.preload").value_or("");
  std::replace_if(
      lists.begin(), lists.end(), [](char c) { return c == ':' || c == '\n' || c == '\t'; }, ' ');
  for (const std::string& path : split(lists, ' ')) {
    if (is_our_library(path)) {
      return path;
    }
  }
  return "";
}

std::string last_column(const std::string& line) {
  const std::size_t slash = line.find('/');
  return slash == std::string::npos ? "" : line.substr(slash);
}

// What cubfc would enforce by these settings, were it loaded: a text for each limit.
std::vector<std::string> limits_of(const config::Policy& policy) {
  std::vector<std::string> limits;
  for (const config::Option& option : config::options()) {
    const bool is_start_only = option.own.name == "CUBFC_MEM_FRACTION" &&
                               !(policy.mem_fraction.value && policy.mem_fraction.value->limit) &&
                               !policy.enforced.mem_fraction.value;
    if (config::is_limit(option) && config::is_set(option, policy) && !is_start_only) {
      limits.push_back(std::string(option.own.name) + " " +
                       report::printable(config::in_force(option, policy)));
    }
  }
  return limits;
}

config::Policy policy_of(const Subject& subject) {
  std::vector<std::string> ours;
  for (const std::string& entry : subject.environment) {
    if (config::is_our_entry(entry.c_str())) {
      ours.push_back(entry);
    }
  }
  config::PolicyFile file = read_policy_file((subject.root + config::kPolicyFile).c_str());
  file.path = file.path.empty() ? "" : config::kPolicyFile;  // as the process sees it
  const config::Policy policy = config::read_policy(config::Environment(ours), file);
  return subject.has_xla ? policy.beside_xla() : policy;
}

void look_at_cubfc(const Subject& subject, Enforcement& found) {
  const config::Policy policy = policy_of(subject);
  const std::vector<std::string> limits = limits_of(policy);
  if (subject.why_not_loaded) {
    const std::string asked = limits.empty() ? policy.limit_explanation : limits.front();
    found.notes.push_back("cubfc: " + *subject.why_not_loaded +
                          (asked.empty() ? "" : ", so this holds nobody: " + asked));
    return;
  }
  if (policy.disable.value) {
    found.notes.push_back("cubfc: it does nothing: " + policy.disable.origin.text() + " is set");
    return;
  }
  const std::string version = kernel_driver_version();
  const auto major = config::read_count(version.substr(0, version.find('.')));
  if (major && *major < kOldestDriver && policy.firm_limit() == nullptr) {
    found.notes.push_back("cubfc: with the driver " + version +
                          ", which is older than 525, it intercepts nothing");
    return;
  }
  if (policy.limit_unusable) {
    found.enforcers.push_back({"cubfc", "no device memory: " + policy.limit_explanation});
    return;
  }
  for (const std::string& limit : limits) {
    found.enforcers.push_back({"cubfc", limit});
  }
}

// In the cgroup and those above it, the least counts. A line of dmem.max: "REGION BYTES", where a
// region that is not limited has "max".
void look_at_kernel(const Subject& subject, Enforcement& found) {
  struct Least {
    std::uint64_t bytes;
    std::string file;
  };
  std::map<std::string, Least> regions;
  std::string path = cgroup_path(subject.cgroups);
  while (!path.empty()) {
    const std::string file = "/sys/fs/cgroup" + (path == "/" ? "" : path) + "/dmem.max";
    for (const std::string& line : split(text_of(file).value_or(""), '\n')) {
      const std::size_t space = line.rfind(' ');
      const auto bytes =
          config::read_count(space == std::string::npos ? "" : line.substr(space + 1));
      if (!bytes) {
        continue;
      }
      const auto [region, is_new] = regions.try_emplace(line.substr(0, space), Least{*bytes, file});
      if (!is_new && *bytes < region->second.bytes) {
        region->second = {*bytes, file};
      }
    }
    path = path == "/" ? "" : path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
  }
  for (const auto& [region, least] : regions) {
    found.enforcers.push_back({"kernel", bytes_text(least.bytes) + " of " +
                                             report::printable(region) + " (" +
                                             report::printable(least.file) + ")"});
  }
}

void look_at_driver(const ordered_json& driver, Enforcement& found) {
  if (driver.contains("error")) {
    found.notes.push_back("driver: it cannot be asked: " + driver["error"].get<std::string>());
    return;
  }
  for (const ordered_json& gpu : driver["gpus"]) {
    found.enforcers.push_back({"driver", bytes_text(gpu["hard_bytes"].get<std::uint64_t>()) +
                                             " of " + gpu["uuid"].get<std::string>() +
                                             " (NVML, nvmlDeviceGetMemoryLimits)"});
  }
}

// Its server keeps the limit that a client's environment asks for.
void look_at_mps(const Subject& subject, Enforcement& found) {
  constexpr const char* kVariable = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
  const std::string limit = value_of(subject.environment, kVariable);
  if (limit.empty()) {
    return;
  }
  std::string folder = value_of(subject.environment, "CUDA_MPS_PIPE_DIRECTORY");
  folder = folder.empty() ? "/tmp/nvidia-mps" : folder;
  struct stat status {};
  const std::string control = folder + "/control";
  if (stat((subject.root + control).c_str(), &status) == 0) {
    found.enforcers.push_back({"MPS", std::string(kVariable) + "=" + report::printable(limit) +
                                          " (" + report::printable(control) + ")"});
  } else {
    found.notes.push_back("MPS: there is no " + report::printable(control) +
                          ", so no server keeps " + kVariable + "=" + report::printable(limit));
  }
}

}  // namespace

std::string cgroup_path(const std::string& cgroups) {
  for (const std::string& line : split(cgroups, '\n')) {
    if (line.starts_with("0::/")) {
      return line.substr(3);
    }
  }
  return "";
}

Subject subject_of_process(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  const std::optional<std::string> environment = text_of(folder + "/environ");
  const std::optional<std::string> maps = text_of(folder + "/maps");
  if (!environment || !maps) {
    const int error = errno;
    throw Failure{"check: --enforced " + std::to_string(process) + ": " +
                      (error == ENOENT ? "there is no such process"
                                       : std::string(std::strerror(error)) +
                                             "; as root, or as its user, it can be looked at"),
                  kUsage};
  }
  std::string command = text_of(folder + "/cmdline").value_or("");
  std::replace(command.begin(), command.end(), '\0', ' ');
  Subject subject{.name = "process " + std::to_string(process) + ", " +
                          report::printable(config::trimmed(command)),
                  .environment = split(*environment, '\0'),
                  .root = folder + "/root",
                  .cgroups = text_of(folder + "/cgroup").value_or("")};
  bool is_loaded = false;
  for (const std::string& line : split(*maps, '\n')) {
    const std::string path = last_column(line);
    is_loaded = is_loaded || is_our_library(path);
    subject.has_xla = subject.has_xla || config::xla_runtime_at(path) != nullptr;
  }
  if (!is_loaded) {
    const std::string named = library_that_is_named(subject);
    subject.why_not_loaded =
        "libcubfc.so is not loaded in the process" +
        (named.empty() ? std::string() : ", although " + report::printable(named) + " was named");
  }
  return subject;
}

Subject subject_of_program(const std::string& name, const std::string& library) {
  Subject subject{.name = name.empty() ? "what is started here" : report::printable(name),
                  .environment = environment_with({}),
                  .root = "",
                  .cgroups = text_of("/proc/self/cgroup").value_or("")};
  const std::string named = library_that_is_named(subject);
  const std::string search = search_path();
  const FoundProgram program = name.empty() ? FoundProgram{} : find_program(name, search);
  if (!name.empty() && program.path.empty()) {
    throw Failure{"check: --enforced: " + why_not_found(name, program), kUsage};
  }
  struct stat status {};
  if (named.empty()) {
    subject.why_not_loaded =
        "nothing preloads libcubfc.so here (`cubfc run`, LD_PRELOAD or /etc/ld.so.preload does)";
  } else if (named.find('/') != std::string::npos && stat(named.c_str(), &status) != 0) {
    subject.why_not_loaded = report::printable(named) + ": " + std::strerror(errno);
  } else if (!name.empty()) {
    const auto obstacles = obstacles_to_preload(program.path, library, "", search);
    if (!obstacles.empty()) {
      subject.why_not_loaded = obstacles.front();
    }
  }
  return subject;
}

Enforcement find_enforcers(const Subject& subject, const ordered_json& driver) {
  Enforcement found;
  look_at_driver(driver, found);
  look_at_kernel(subject, found);
  look_at_mps(subject, found);
  look_at_cubfc(subject, found);
  return found;
}

}  // namespace cubfc::cli::check
