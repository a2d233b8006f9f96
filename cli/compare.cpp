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
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/compare/lines.h"
#include "cli/compare/run_once.h"
#include "cli/option_flags.h"
#include "cli/program_words.h"
#include "cli/progress.h"
#include "cli/report/wording.h"
#include "cli/run/library.h"
#include "cli/run/program.h"
#include "cli/run/settings.h"

namespace cubfc::cli {
namespace {

using compare::Lines;
using compare::Run;
using nlohmann::ordered_json;

constexpr int kDiffers = 1;
constexpr int kNothingToSay = 3;
constexpr std::size_t kMostShown = 40;  // lines of what differs

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

struct Words {
  std::vector<std::string> program;
  std::optional<std::string> library;
  std::string only;  // with commas between; all
  bool list = false;
  double timeout = 600;
  std::string report;
  std::string json;
};

// A run under cubfc beside the one without.
struct Compared {
  std::string mode;
  Run run;
  Lines out;  // what differs
  Lines err;
  bool is_equal = false;
};

[[noreturn]] void refuse(const std::string& message) {
  throw Failure{"compare: " + message, kUsage};
}

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
      refuse("there is no mode " + config::shown(name) + "; --list shows them");
    }
    chosen.push_back(*mode);
  }
  return chosen;
}

// All of stdin, which every run gets; nothing of a terminal's.
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

std::string padded(const std::string& text, int width) {
  std::array<char, 128> line{};
  std::snprintf(line.data(), line.size(), "%*s", width, text.c_str());
  return line.data();
}

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) {
    text.insert(at - 3, ",");
  }
  return text;
}

std::string row(const std::string& mode, const std::string& ended, const std::string& out,
                const std::string& err, double seconds, double times) {
  std::array<char, 64> numbers{};
  std::snprintf(numbers.data(), numbers.size(), " %9.2f %7.2f", seconds, times);
  return padded(mode, -15) + " " + padded(ended, 8) + " " + padded(out, 8) + " " + padded(err, 8) +
         numbers.data();
}

std::string row_of(const Compared& compared, double bare_seconds) {
  std::string text =
      row(compared.mode, compared.run.ended, compared.out.empty() ? "equal" : "differs",
          compared.err.empty() ? "equal" : "differs", compared.run.seconds,
          compared.run.seconds / std::max(bare_seconds, 1e-9));
  if (const auto& counts = compared.run.counts) {
    text += " " + padded(grouped(counts->allocations), 12);
    text += counts->driver_calls > 0 ? " " + padded(grouped(counts->driver_calls), 13) : "";
  }
  return text;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

std::string verdict_of(const std::vector<Compared>& all) {
  std::vector<std::string> different;
  std::vector<std::string> equal;
  for (const Compared& each : all) {
    (each.is_equal ? equal : different).push_back(each.mode);
  }
  const auto differs = [&](const char* mode) {
    return std::find(different.begin(), different.end(), mode) != different.end();
  };
  if (different.empty()) {
    return "equal in every mode";
  }
  std::string text = "differs in: " + listed(different);
  if (differs("disabled")) {
    text += "; also where cubfc is switched off, so it is the preload itself, or chance";
  } else if (differs("platform")) {
    text += "; also where the driver serves everything, so it is not the arena";
  } else if (!equal.empty()) {
    text += "; not in: " + listed(equal);
  }
  return text;
}

void add_lines(Lines& details, const std::string& mode, const char* what, const Lines& lines) {
  if (lines.empty()) {
    return;
  }
  details.push_back("-- " + mode + ", " + what);
  const std::size_t shown = std::min(lines.size(), kMostShown);
  for (std::size_t i = 0; i < shown; ++i) {
    details.push_back(report::printable(lines[i]));
  }
  if (lines.size() > shown) {
    details.push_back("... " + std::to_string(lines.size() - shown) + " lines more");
  }
}

// Lines of either run that are not in the other.
std::size_t loose_lines(const Lines& bare, const Lines& again) {
  return bare == again ? 0 : bare.size() - compare::common(bare, again).size();
}

// What a bug report needs to know.
std::string machine() {
  utsname system{};
  uname(&system);
  std::ifstream kernel("/sys/module/nvidia/version");
  std::string driver;
  std::getline(kernel, driver);
  return std::string("system    ") + system.sysname + " " + system.release + " " + system.machine +
         ", glibc " + gnu_get_libc_version() + "\ndriver    " +
         (driver.empty() ? "no NVIDIA kernel module" : report::printable(driver));
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!(file << text) || !file.flush()) {
    throw Failure{"compare: " + config::shown(path, 200) + ": " + std::strerror(errno)};
  }
}

// Everything that was found out.
struct Result {
  Run bare;
  Run again;
  std::vector<Compared> compared;

  double bare_seconds() const { return std::min(bare.seconds, again.seconds); }
  bool can_be_told() const { return !bare.is_late && !again.is_late && bare.ended == again.ended; }
  bool is_equal() const {
    return std::all_of(compared.begin(), compared.end(),
                       [](const Compared& each) { return each.is_equal; });
  }
  int exit_status() const { return !can_be_told() ? kNothingToSay : is_equal() ? kDone : kDiffers; }
};

std::string verdict_of(const Result& result, double timeout) {
  std::string text;
  if (result.bare.is_late || result.again.is_late) {
    std::array<char, 32> seconds{};
    std::snprintf(seconds.data(), seconds.size(), "%g", timeout);
    text = std::string("the program does not end within ") + seconds.data() +
           " s without cubfc: nothing can be said (--timeout)";
  } else if (!result.can_be_told()) {
    text = "the program ends differently by itself (" + result.bare.ended + ", then " +
           result.again.ended + "): nothing can be said";
  } else {
    text = verdict_of(result.compared);
  }
  const std::size_t loose = loose_lines(result.bare.out, result.again.out) +
                            loose_lines(result.bare.err, result.again.err);
  return loose == 0 ? text
                    : text + " (" + std::to_string(loose) +
                          " lines that are different every time were left out)";
}

std::string table_of(const Result& result) {
  std::string text = padded("mode", -15) + " " + padded("exit", 8) + " " + padded("stdout", 8) +
                     " " + padded("stderr", 8) + " " + padded("seconds", 9) + " " +
                     padded("x bare", 7) + " " + padded("allocations", 12) + " " +
                     padded("driver calls", 13) + "\n" +
                     row("bare", result.bare.ended, "", "", result.bare_seconds(), 1) + "\n";
  for (const Compared& each : result.compared) {
    text += row_of(each, result.bare_seconds()) + "\n";
  }
  return text;
}

std::string details_of(const Result& result) {
  Lines details;
  for (const Compared& each : result.compared) {
    add_lines(details, each.mode, "stdout", each.out);
    add_lines(details, each.mode, "stderr", each.err);
    add_lines(details, each.mode, "cubfc said", each.run.said);
  }
  std::string text;
  for (const std::string& line : details) {
    text += line + "\n";
  }
  return text;
}

std::string json_of(const Words& words, const Result& result) {
  ordered_json rows = ordered_json::array();
  for (const Compared& each : result.compared) {
    const auto& counts = each.run.counts;
    rows.push_back(
        {{"mode", each.mode},
         {"exit", each.run.ended},
         {"stdout_equal", each.out.empty()},
         {"stderr_equal", each.err.empty()},
         {"seconds", each.run.seconds},
         {"allocations", counts ? ordered_json(counts->allocations) : ordered_json()},
         {"driver_calls", counts ? ordered_json(counts->driver_calls) : ordered_json()}});
  }
  ordered_json program = ordered_json::array();
  for (const std::string& word : words.program) {
    program.push_back(report::printable(word, true));
  }
  const ordered_json all = {
      {"command", std::move(program)},
      {"bare", {{"exit", result.bare.ended}, {"seconds", result.bare_seconds()}}},
      {"modes", std::move(rows)},
      {"verdict", verdict_of(result, words.timeout)}};
  return all.dump(2) + "\n";
}

std::string command_of(const Words& words) {
  std::string text;
  for (const std::string& word : words.program) {
    text += (text.empty() ? "" : " ") + config::shown(word, 1000);
  }
  return text;
}

Result run_all(const Words& words, const std::vector<Mode>& chosen, const std::string& path,
               const std::string& library) {
  const std::string input = read_input();
  const std::chrono::duration<double> most(words.timeout);
  ProgressLine progress;
  Result result;
  progress.show("without cubfc");
  result.bare = compare::run_once(words.program, path, {}, "", input, most);
  progress.show("without cubfc, again");
  result.again = compare::run_once(words.program, path, {}, "", input, most);
  for (const Mode& mode : chosen) {
    progress.show(mode.name + ": " + settings_text(mode));
    Compared each;
    each.mode = mode.name;
    each.run = compare::run_once(words.program, path, mode.settings, library, input, most);
    each.out = compare::differences(result.bare.out, result.again.out, each.run.out);
    each.err = compare::differences(result.bare.err, result.again.err, each.run.err);
    each.is_equal = each.run.ended == result.bare.ended && each.out.empty() && each.err.empty();
    result.compared.push_back(std::move(each));
  }
  return result;
}

void compare_modes(const Words& words) {
  if (words.list) {
    for (const Mode& mode : modes()) {
      std::printf("%-15s %s\n", mode.name.c_str(), settings_text(mode).c_str());
    }
    return;
  }
  if (words.program.empty()) {
    refuse("which program? `cubfc compare [OPTIONS] -- PROGRAM ARGUMENTS`");
  }
  const std::vector<Mode> chosen = chosen_modes(words.only);
  std::string library;
  try {
    library = find_library(words.library);
  } catch (const Failure& failure) {
    refuse(failure.message);
  }
  const FoundProgram program = find_program(words.program[0], search_path());
  if (program.path.empty()) {
    refuse(why_not_found(words.program[0], program));
  }
  const Result result = run_all(words, chosen, program.path, library);
  const std::string seen = table_of(result) + "\n" + verdict_of(result, words.timeout) + "\n";
  const std::string details = details_of(result);
  std::fputs(seen.c_str(), stdout);
  if (!words.report.empty()) {
    write_file(words.report, "command   " + command_of(words) + "\nlibrary   " + library + ", " +
                                 CUBFC_VERSION + "\n" + machine() + "\n\n" + seen + "\n" + details);
    std::printf("everything is in %s\n", config::shown(words.report, 200).c_str());
  } else if (!details.empty()) {
    std::fputs(("\n" + details).c_str(), stdout);
  }
  if (!words.json.empty()) {
    write_file(words.json, json_of(words, result));
  }
  if (result.exit_status() != kDone) {
    throw Failure{"", result.exit_status()};
  }
}

}  // namespace

void add_compare(CLI::App& app, std::vector<std::string>& words) {
  CLI::App* const command = app.add_subcommand(
      "compare", "Is it cubfc? Runs a program without it and in each of its modes.");
  const auto ours = std::make_shared<Words>();
  command->add_option("PROGRAM", ours->program, "what to execute, and its arguments")
      ->type_name("");
  add_library_option(*command, ours->library);
  command->add_option("--only", ours->only, "some of the modes, with commas between")
      ->type_name("MODES");
  command->add_flag("--list", ours->list, "show the modes, and what each sets");
  command->add_option("--timeout", ours->timeout, "end a run that takes longer (600)")
      ->type_name("SECONDS")
      ->check(CLI::Validator(CLI::PositiveNumber).description(""));
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
