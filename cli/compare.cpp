// `cubfc compare`: is it cubfc? Runs a program without it and in each of its modes, and compares.
#include <gnu/libc-version.h>
#include <poll.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/compare/result.h"
#include "cli/compare/run_once.h"
#include "cli/kernel_driver.h"
#include "cli/numbers.h"
#include "cli/option_flags.h"
#include "cli/program_words.h"
#include "cli/progress.h"
#include "cli/report/output.h"
#include "cli/run/library.h"
#include "cli/run/program.h"
#include "cli/run/settings.h"

namespace cubfc::cli {
namespace {

using compare::Result;
using compare::Run;

struct Mode {
  std::string name;
  Variables settings;
};
const std::array<Mode, 8>& modes() {
  static const std::array<Mode, 8> all{{{"disabled", {{"CUBFC_DISABLE", "1"}}},
                                        {"platform", {{"CUBFC_ALLOCATOR", "platform"}}},
                                        {"default", {}},
                                        {"grown", {{"CUBFC_PREALLOCATE", "false"}}},
                                        {"deferred", {{"CUBFC_FREE", "deferred"}}},
                                        {"vmm", {{"CUBFC_ALLOCATOR", "vmm"}}},
                                        {"cuda_async", {{"CUBFC_ALLOCATOR", "cuda_async"}}},
                                        {"stream_ordered", {{"CUBFC_STREAM_ORDERED", "arena"}}}}};
  return all;
}

std::string settings_text(const Mode& mode) {
  std::string text;
  for (const auto& [name, value] : mode.settings) {
    text += (text.empty() ? "" : " ") + name + "=" + value;
  }
  return text.empty() ? "(nothing)" : text;
}

struct CompareWords {
  std::vector<std::string> program;
  std::optional<std::string> library;
  std::string only;  // names with commas between; empty: all
  bool list = false;
  double timeout = 600;
  std::string report;
  std::string json;
};

std::vector<Mode> chosen_modes(const std::string& names) {
  if (names.empty()) {
    return {modes().begin(), modes().end()};
  }
  std::vector<Mode> chosen;
  std::istringstream rest(names);
  for (std::string name; std::getline(rest, name, ',');) {
    const auto mode = std::find_if(modes().begin(), modes().end(),
                                   [&](const Mode& each) { return each.name == name; });
    if (mode == modes().end()) {
      refuse("compare: there is no mode " + config::shown(name) + "; --list shows them");
    }
    chosen.push_back(*mode);
  }
  return chosen;
}

// All of stdin, which each run gets as its own; empty where stdin is a terminal.
std::string read_input() {
  std::string input;
  if (isatty(STDIN_FILENO) == 1) {
    return input;
  }
  pollfd file{STDIN_FILENO, POLLIN, 0};
  if (poll(&file, 1, 1000) == 0) {
    std::fputs("cubfc: compare: reading all of stdin first (</dev/null gives the program none)\n",
               stderr);
  }
  std::array<char, 65536> buffer{};
  for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);) {
    got = read(STDIN_FILENO, buffer.data(), buffer.size());
    input.append(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  return input;
}

// What a bug report needs to know.
std::string machine() {
  utsname system{};
  uname(&system);
  const std::string driver = kernel_driver_version();
  return std::string("system    ") + system.sysname + " " + system.release + " " + system.machine +
         ", glibc " + gnu_get_libc_version() + "\ndriver    " +
         (driver.empty() ? "no NVIDIA kernel module" : driver);
}

void write_file(const std::string& path, const std::string& text) {
  try {
    report::Output output{path, {}};
    output.write(text);
    output.finish();
  } catch (const report::CannotWrite& error) {
    throw Failure{std::string("compare: ") + error.what()};
  }
}

std::string command_of(const CompareWords& words) {
  std::string text;
  for (const std::string& word : words.program) {
    text += (text.empty() ? "" : " ") + config::shown(word, 1000);
  }
  return text;
}

Result run_all(const CompareWords& words, const std::vector<Mode>& chosen, const std::string& path,
               const std::string& library) {
  const std::string input = read_input();
  const std::chrono::duration<double> most(words.timeout);
  ProgressLine progress;
  progress.show("without cubfc");
  Run bare = compare::run_once(words.program, path, {}, "", input, most);
  progress.show("without cubfc, again");
  Result result(std::move(bare), compare::run_once(words.program, path, {}, "", input, most));
  for (const Mode& mode : chosen) {
    progress.show(mode.name + ": " + settings_text(mode));
    result.add(mode.name,
               compare::run_once(words.program, path, mode.settings, library, input, most));
  }
  return result;
}

void compare_modes(const CompareWords& words) {
  if (words.list) {
    for (const Mode& mode : modes()) {
      std::printf("%-15s %s\n", mode.name.c_str(), settings_text(mode).c_str());
    }
    return;
  }
  if (words.program.empty()) {
    refuse("compare: which program? `cubfc compare [OPTIONS] -- PROGRAM ARGUMENTS`");
  }
  const std::vector<Mode> chosen = chosen_modes(words.only);
  std::string library;
  try {
    library = find_library(words.library);
  } catch (const Failure& failure) {
    refuse("compare: " + failure.message);
  }
  const FoundProgram program = find_program(words.program[0], search_path());
  if (program.path.empty()) {
    refuse("compare: " + why_not_found(words.program[0], program));
  }
  const Result result = run_all(words, chosen, program.path, library);
  const std::string verdict = result.verdict(words.timeout);
  const std::string seen = result.table() + "\n" + verdict + "\n";
  const std::string details = result.details();
  std::fputs(seen.c_str(), stdout);
  if (!words.report.empty()) {
    write_file(words.report, "command   " + command_of(words) + "\nlibrary   " + library + ", " +
                                 CUBFC_VERSION + "\n" + machine() + "\n\n" + seen + "\n" + details);
    std::printf("everything is in %s\n", config::shown(words.report, 200).c_str());
  } else if (!details.empty()) {
    std::fputs(("\n" + details).c_str(), stdout);
  }
  if (!words.json.empty()) {
    write_file(words.json, result.json(words.program, verdict));
  }
  if (result.exit_status() != kDone) {
    throw Failure{"", result.exit_status()};
  }
}

}  // namespace

void add_compare(CLI::App& app, std::vector<std::string>& words) {
  CLI::App* const command = app.add_subcommand(
      "compare", "Is it cubfc? Runs a program without it and in each of its modes.");
  const auto ours = std::make_shared<CompareWords>();
  command->add_option("PROGRAM", ours->program, "what to execute, and its arguments")
      ->type_name("");
  add_library_option(*command, ours->library);
  command->add_option("--only", ours->only, "some of the modes, with commas between")
      ->type_name("MODES");
  command->add_flag("--list", ours->list, "show the modes, and what each sets");
  command->add_option("--timeout", ours->timeout, "end a run that takes longer (600)")
      ->type_name("SECONDS")
      ->check(seconds(0.001, 86400));
  command
      ->add_option("--report", ours->report,
                   "write all that was seen to this file, for a bug report")
      ->type_name("FILE");
  command->add_option("--json", ours->json, "write the table to this file")->type_name("FILE");
  command->footer(R"(
Compared are the exit status and what the program writes to stdout and stderr, byte for byte;
beside it stand time, and cubfc's counts of allocations and of calls of the driver. The program
is run twice without cubfc first: lines that differ between these two runs are different every
time, and do not count; all others must be there in their order. What is on stdin goes to every
run. cubfc's own messages go to a file of their own.

Exit status: 0 equal in every mode; 1 something differs; 2 the command line is wrong; 3 the
program ends differently by itself, so that nothing can be said.

Example:
  cubfc compare --report bug.txt -- python3 train.py --steps 10)");
  command->callback([ours] { compare_modes(*ours); });
  ours->program = take_program(*command, words);
}

}  // namespace cubfc::cli
