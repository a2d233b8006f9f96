// `cubfc check`: whether library, driver, settings and a program can work together; with --fill,
// whether a device's memory holds what is written to it.
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/check/child.h"
#include "cli/check/findings.h"
#include "cli/check/inspect.h"
#include "cli/check/nvml_limits.h"
#include "cli/check/policy.h"
#include "cli/check/tell_enforced.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/kernel_driver.h"
#include "cli/numbers.h"
#include "cli/option_flags.h"
#include "cli/report/wording.h"
#include "cli/run/library.h"
#include "cli/run/program.h"
#include "cli/run/settings.h"
#include "config/options.h"

namespace cubfc::cli {
namespace {

using check::ask_child;
using check::Findings;
using nlohmann::ordered_json;
using report::bytes_text;
using report::printable;

constexpr std::chrono::hours kFillPatience{24};
constexpr int kOldestDriver = 12000;
constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;  // the driver gives no less

struct CheckWords {
  std::vector<std::string> program;
  std::optional<std::string> library;
  std::string fill;
  std::string step = "1GiB";
  int gpu = -1;
  // In seconds. A driver that has to start takes several seconds for each GPU.
  unsigned patience = 120;
  bool json = false;
  bool enforced = false;
  std::string policy;  // a file
  std::string child;   // the task of a child of this command: see be_child()
  std::string cgroup;  // for the task "limits"
};

std::string cuda_version(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string gpus(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " GPU" : " GPUs");
}

// Returns false where the driver does not answer, or is older than cubfc needs.
bool check_driver(Findings& findings, std::chrono::seconds patience) {
  const ordered_json told = ask_child({"check", "--child=devices"}, {{"CUBFC_DISABLE", "1"}},
                                      check::Errors::kCatch, patience);
  findings.json()["driver"] = ordered_json::object();
  if (told.contains("error")) {
    findings.object("driver: " + told["error"].get<std::string>());
    return false;
  }
  const int version = told["version"];
  const std::string kernel = kernel_driver_version();
  findings.json()["driver"] = {{"version", kernel}, {"cuda", version}};
  findings.json()["gpus"] = told["gpus"];
  findings.say("driver", (kernel.empty() ? "" : kernel + "  ") + cuda_version(version) + ", " +
                             gpus(told["gpus"].size()));
  if (version < kOldestDriver) {
    findings.object("the driver is for " + cuda_version(version) +
                    ", and cubfc needs 12.0: it would intercept nothing");
  }
  if (told["gpus"].empty()) {
    findings.object("the driver shows no GPU; CUDA_VISIBLE_DEVICES may hide them");
  }
  for (const ordered_json& gpu : told["gpus"]) {
    const std::string name = "GPU " + json_text(gpu["number"]);
    std::string text =
        gpu["name"].get<std::string>() + "  " + bytes_text(gpu["total_bytes"].get<std::uint64_t>());
    if (gpu.contains("free_bytes")) {
      text += ", " + bytes_text(gpu["free_bytes"].get<std::uint64_t>()) + " free";
    }
    findings.say(name, text);
    if (gpu.contains("error")) {
      findings.object(name + ": " + gpu["error"].get<std::string>());
    }
  }
  return version >= kOldestDriver;
}

// Has a child load the library as a program would, but without preallocation, and allocate 1 MiB on
// each GPU. Without a driver the child only loads the library.
void check_library(Findings& findings, const std::string& library, bool has_driver,
                   std::chrono::seconds patience) {
  const ordered_json told =
      ask_child({"check", has_driver ? "--child=library" : "--child=version"},
                {{"LD_PRELOAD", preload_with(variable("LD_PRELOAD"), library)},
                 {"CUBFC_PREALLOCATE", "false"},
                 {"CUBFC_ASYNC_PREALLOCATE", ""},
                 {"CUBFC_DISABLE", ""},
                 {"CUBFC_LOG_FILE", ""},
                 {"CUBFC_SUMMARY", ""},
                 {"CUBFC_TRACE", ""},
                 {"CUBFC_SHOW_STATS", ""}},
                check::Errors::kCatch, patience);
  const std::string version = told.value("library", "");
  findings.json()["library"] = {{"path", library}, {"version", version}};
  if (version.empty()) {
    findings.say("library", library + "  does not load");
    const std::string said = told["stderr"];
    findings.object("library: " + (!said.empty() ? said
                                   : told.contains("library")
                                       ? "it is not cubfc's: it says no version"
                                       : told.value("error", "")));
    return;
  }
  findings.say("library", library + "  loads, " + version);
  if (version != CUBFC_VERSION) {
    findings.object("the library is version " + version +
                    ", and this command " CUBFC_VERSION
                    ": `cubfc top`, `trim` and `metrics` may not see its processes");
  }
  if (!has_driver) {
    return;
  }
  if (told.contains("error")) {
    findings.object("with the library: " + told["error"].get<std::string>());
    return;
  }
  for (const ordered_json& gpu : told["gpus"]) {
    const std::string name = "GPU " + json_text(gpu["number"]);
    if (!gpu["allocated"]) {
      findings.object(name + ": 1 MiB cannot be had with these settings");
    } else if (!gpu["counted"]) {
      findings.object(name +
                      ": an allocation has passed the library by; another library that is "
                      "preloaded or injected may take it");
    } else if (!gpu.value("holds", true)) {
      findings.object(name + ": an allocation does not hold what is written to it");
    } else {
      findings.say(name, "1 MiB allocated by the library, written, read back, freed");
    }
  }
}

void check_settings(Findings& findings) {
  const config::Policy policy = policy_with({});
  ordered_json settings = ordered_json::object();
  for (const config::Option& option : config::options()) {
    if (!config::is_set(option, policy)) {
      continue;
    }
    const config::Origin& origin = option.origin(policy);
    const std::string in_force = printable(config::in_force(option, policy));
    settings[std::string(option.own.name)] =
        origin.variable.empty() ? in_force : printable(option.show(policy));
    findings.say("setting",
                 std::string(option.own.name) + (origin.own_name && origin.file.empty()
                                                     ? "=" + printable(option.show(policy))
                                                     : " " + in_force));
  }
  findings.json()["settings"] = settings;
  if (policy.limit_unusable) {
    findings.object(policy.limit_explanation);
  }
  for (const std::string& warning : policy.warnings) {
    findings.object(warning);
  }
  for (const std::string& note : policy.notes) {
    findings.say("note", note);
  }
  if (policy.disable.value) {
    findings.object("cubfc does nothing: " + policy.disable.origin.text() + " is set");
  }
}

void check_policy(Findings& findings, const std::string& path) {
  const check::PolicyCheck told = check::check_policy_file(path);
  ordered_json& settings = findings.json()["policy"] = ordered_json::array();
  for (const auto& [kind, setting] : told.settings) {
    settings.push_back({{"setting", printable(setting)}, {"enforced", kind == "enforced"}});
    findings.say(kind, printable(setting));
  }
  for (const std::string& problem : told.problems) {
    findings.object(problem);
  }
}

void check_program(Findings& findings, const std::string& name, const std::string& library) {
  const std::string search = search_path();
  const FoundProgram program = find_program(name, search);
  ordered_json& told = findings.json()["program"] = {{"name", printable(name)}};
  if (program.path.empty()) {
    findings.object("program: " + why_not_found(name, program));
    return;
  }
  told["path"] = printable(program.path);
  const std::vector<std::string> obstacles =
      obstacles_to_preload(program.path, library, variable("LD_PRELOAD"), search);
  findings.say("program",
               printable(program.path) + (obstacles.empty() ? "  can be preloaded" : ""));
  for (const std::string& obstacle : obstacles) {
    findings.object(obstacle);
  }
}

std::vector<std::string> words_of_fill(const CheckWords& words) {
  std::vector<std::string> all{"check", "--child=fill", "--fill=" + words.fill,
                               "--step=" + words.step};
  if (words.gpu >= 0) {
    all.push_back("--gpu=" + std::to_string(words.gpu));
  }
  return all;
}

void check_memory(Findings& findings, const CheckWords& words) {
  const ordered_json told = ask_child(words_of_fill(words), {{"CUBFC_DISABLE", "1"}},
                                      check::Errors::kShow, kFillPatience);
  if (told.contains("error")) {
    findings.object("--fill: " + told["error"].get<std::string>());
    return;
  }
  findings.json()["fill"] = told["gpus"];
  for (const ordered_json& gpu : told["gpus"]) {
    const std::string name = "GPU " + json_text(gpu["number"]);
    const auto bytes = [&](const char* field) {
      return bytes_text(gpu[field].get<std::uint64_t>());
    };
    findings.say(name, bytes("filled_bytes") + " of " + bytes("total_bytes") + " taken in " +
                           json_text(gpu["steps"]) + (gpu["steps"] == 1 ? " step" : " steps") +
                           ", written, read back, given back");
    if (gpu["filled_bytes"] < gpu["wanted_bytes"]) {
      findings.object(name + ": only " + bytes("filled_bytes") + " of " + bytes("wanted_bytes") +
                      " could be had; `nvidia-smi` and `cubfc top` tell who has the rest");
    }
    if (gpu["wrong_bytes"] > 0) {
      findings.object(name + ": pieces of " + bytes("wrong_bytes") +
                      " in all did not hold what was written to them: the memory, or what "
                      "carries it, is faulty");
    }
  }
}

check::Fill read_fill(const CheckWords& words) {
  const auto share = config::read_share(words.fill);
  if (!share || *share <= 0 || *share > 1) {
    refuse("check: --fill " + config::quoted(words.fill) +
           " cannot be used; accepted: a share of the device above 0 and up to 1, such as 0.8 or "
           "80%");
  }
  const auto step = config::read_size(words.step);
  if (!step || *step == 0 || *step > (std::uint64_t{1} << 50)) {
    refuse("check: --step " + config::quoted(words.step) +
           " cannot be used; accepted: a size such as 1GiB or 512MiB");
  }
  return {*share, (*step + kGranule - 1) / kGranule * kGranule,
          words.gpu < 0 ? std::nullopt : std::optional(words.gpu)};
}

void be_child(const CheckWords& words) {
  std::string told;
  if (words.child == "limits") {
    told = check::nvml_limits(words.cgroup);
  } else if (words.child == "preloaded") {
    told = check::find_preloaded();
  } else if (words.child == "count") {
    told = check::count_devices();
  } else if (words.child == "devices") {
    told = check::describe_devices();
  } else if (words.child == "version") {
    told = check::tell_version();
  } else if (words.child == "library") {
    told = check::try_library();
  } else {
    told = check::fill_devices(read_fill(words));
  }
  std::fputs(told.c_str(), stdout);
}

void run(const CheckWords& words) {
  if (!words.child.empty()) {
    be_child(words);
    return;
  }
  if (words.enforced) {
    check::tell_enforced({words.program.empty() ? "" : words.program[0],
                          std::chrono::seconds(words.patience), words.json});
    return;
  }
  if (!words.fill.empty()) {
    read_fill(words);
  }
  Findings findings;
  if (!words.policy.empty()) {
    check_policy(findings, words.policy);
    findings.finish(words.json);
    return;
  }
  std::string library;
  try {
    library = find_library(words.library);
  } catch (const Failure& failure) {
    findings.object(failure.message);
  }
  const std::chrono::seconds patience(words.patience);
  const bool has_driver = check_driver(findings, patience);
  if (!library.empty()) {
    check_library(findings, library, has_driver, patience);
  }
  check_settings(findings);
  if (!words.program.empty()) {
    check_program(findings, words.program[0], library);
  }
  if (!words.fill.empty() && has_driver) {
    check_memory(findings, words);
  }
  findings.finish(words.json);
}

}  // namespace

void add_check(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "check", "Whether the library, the driver, the settings and a program can work together.");
  const auto words = std::make_shared<CheckWords>();
  command
      ->add_option("PROGRAM", words->program,
                   "whether this one can be preloaded; its arguments do not matter. With "
                   "--enforced also the number of a process that runs")
      ->type_name("");
  add_library_option(*command, words->library);
  command
      ->add_option("--fill", words->fill,
                   "take this share of each GPU, without cubfc, write to all of it, read it back "
                   "and give it back: a test of a GPU's memory")
      ->type_name("SHARE");
  command->add_option("--step", words->step, "so much at a time, in whole 2 MiB (1GiB)")
      ->type_name("SIZE");
  command->add_option("--gpu", words->gpu, "--fill only this one, as CUDA counts them")
      ->type_name("NUMBER")
      ->check(whole_number(0, 255));
  command
      ->add_option("--timeout", words->patience,
                   "the driver is given up when it takes longer, but for --fill (120)")
      ->type_name("SECONDS")
      ->check(whole_number(1, 86400));
  command
      ->add_option("--policy", words->policy,
                   "nothing but this policy file, as it would be at /etc/cubfc.conf: what it "
                   "enforces, and what of it cannot be understood")
      ->type_name("FILE");
  command->add_flag("--enforced", words->enforced,
                    "nothing but who limits the GPU memory of the process of that number, of the "
                    "program, or of whatever is started here: the driver, the kernel, MPS, cubfc, "
                    "or nobody");
  command->add_flag("--json", words->json, "one line of JSON");
  command->add_option("--child", words->child)->group("");
  command->add_option("--cgroup", words->cgroup)->group("");
  command->footer(R"(
The driver is asked in a process of its own; on each GPU a context is made, and 1 MiB
allocated under the library. What is wrong stands in lines that begin with "problem",
each with what to do about it.

Exit status: 0 nothing is wrong; 1 something is; 2 the command line is wrong. Of
--enforced: 0 somebody limits it; 1 nobody does; 2 there is no such process or program; 3
it cannot be known.

Examples:
  cubfc check
  cubfc check ./train.sh
  cubfc check --policy cubfc.conf       before it is installed
  cubfc check --enforced $(pgrep -n python3)   as a readiness probe: is a limit kept?
  cubfc check --fill 0.9 --gpu 0        before a job, or as an init container)");
  command->callback([words] { run(*words); });
}

}  // namespace cubfc::cli
