#include "cli/check/enforced.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/kernel_driver.h"
#include "cli/report/wording.h"
#include "config/environment.h"
#include "config/options.h"
#include "shim/limit/cgroup_memory.h"

namespace cubfc::cli::check {
namespace {

using nlohmann::ordered_json;
using report::bytes_text;
using report::printable;

constexpr std::uint64_t kOldestDriver = 525;

// What cubfc enforces by these settings where it is loaded: a text for each option that limits.
std::vector<std::string> limits_of(const config::Policy& policy) {
  const auto is_share = [](const config::Setting<std::optional<config::Fraction>>& fraction) {
    return fraction.value && fraction.value->limit;
  };
  const bool has_group = policy.group.value && !policy.group_limit.value.empty();
  const std::map<std::string_view, bool> limiting = {
      {"CUBFC_MEM_LIMIT", !policy.mem_limit.value.empty() ||
                              !policy.container_limit.value.empty() ||
                              !policy.enforced.mem_limit.value.empty()},
      {"CUBFC_MEM_FRACTION",
       is_share(policy.mem_fraction) || is_share(policy.enforced.mem_fraction)},
      {"CUBFC_GROUP", has_group},
      {"CUBFC_GROUP_LIMIT", has_group}};
  std::vector<std::string> limits;
  for (const config::Option& option : config::options()) {
    const auto found = limiting.find(option.own.name);
    if (found != limiting.end() && found->second) {
      limits.push_back(std::string(option.own.name) + " " +
                       printable(config::in_force(option, policy)));
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
  const config::Policy policy = config::read_policy(config::Environment(ours), subject.policy_file);
  return subject.has_xla ? policy.beside_xla() : policy;
}

void look_at_cubfc(const Subject& subject, Enforcement& found) {
  const config::Policy policy = policy_of(subject);
  const std::vector<std::string> limits = limits_of(policy);
  const auto add = [&found](const std::string& limit) {
    found.enforcers.push_back({"cubfc", limit});
  };
  if (subject.why_not_loaded) {
    const std::string asked = limits.empty() ? policy.limit_explanation : limits.front();
    found.notes.push_back("cubfc: " + *subject.why_not_loaded +
                          (asked.empty() ? "" : ", so this holds nobody: " + asked));
    return;
  }
  if (subject.told_limits) {
    std::ranges::for_each(*subject.told_limits, add);
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
    add("no device memory: " + policy.limit_explanation);
    return;
  }
  std::ranges::for_each(limits, add);
}

void look_at_kernel(const Subject& subject, Enforcement& found) {
  for (const auto& [region, memory] : cgroup_memory(subject.cgroup)) {
    if (memory.max) {
      found.enforcers.push_back({"kernel", bytes_text(*memory.max) + " of " + printable(region) +
                                               " (" + printable(memory.max_file) + ")"});
    }
  }
}

void look_at_driver(const ordered_json& driver, Enforcement& found) {
  for (const ordered_json& gpu : driver.value("gpus", ordered_json::array())) {
    found.enforcers.push_back({"driver", bytes_text(gpu["hard_bytes"].get<std::uint64_t>()) +
                                             " of " + printable(gpu["uuid"].get<std::string>()) +
                                             " (NVML, nvmlDeviceGetMemoryLimits)"});
  }
  if (driver.contains("error")) {
    found.unknown.push_back("driver: it cannot be asked: " +
                            printable(driver["error"].get<std::string>()));
  }
}

// An MPS server enforces the limit that a client's environment asks for. It may have another limit
// for clients that ask for none, which only the server knows.
void look_at_mps(const Subject& subject, Enforcement& found) {
  constexpr std::string_view kVariable = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT";
  const std::string asked = value_of(subject.environment, std::string(kVariable));
  std::string folder = value_of(subject.environment, "CUDA_MPS_PIPE_DIRECTORY");
  folder = folder.empty() ? "/tmp/nvidia-mps" : folder;
  const std::string control = folder + "/control";
  struct stat status {};
  const bool has_server = stat((subject.root + control).c_str(), &status) == 0 &&
                          (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
  const config::Policy policy =
      config::read_policy(config::Environment{std::string(kVariable) + "=" + asked});
  const std::string words = std::string(kVariable) + "=" + printable(asked);
  if (has_server && !policy.mem_limit.value.empty()) {
    found.enforcers.push_back({"MPS", words + " (" + printable(control) + ")"});
  } else if (has_server) {
    found.notes.push_back("MPS: the server at " + printable(control) +
                          " may have a limit for all of its clients, which only it tells "
                          "(get_default_device_pinned_mem_limit)");
  } else if (!asked.empty()) {
    found.notes.push_back("MPS: there is no " + printable(control) + ", so no server keeps " +
                          words);
  }
}

}  // namespace

Enforcement find_enforcers(const Subject& subject, const ordered_json& driver) {
  Enforcement found;
  found.unknown = subject.unknown;
  look_at_driver(driver, found);
  look_at_kernel(subject, found);
  look_at_mps(subject, found);
  look_at_cubfc(subject, found);
  return found;
}

}  // namespace cubfc::cli::check
