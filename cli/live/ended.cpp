#include "cli/live/ended.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

#include "cli/report/program_name.h"
#include "cli/report/wording.h"
#include "shim/tell/summary.h"

namespace cubfc::live {
namespace {

// In this machine's time zone.
std::string time_text(std::uint64_t unix_ns) {
  const auto seconds = static_cast<time_t>(unix_ns / 1'000'000'000);
  struct tm local {};
  std::array<char, 64> text{};
  const bool known = localtime_r(&seconds, &local) != nullptr &&
                     std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &local) > 0;
  return known ? text.data() : "an unknown time";
}

Summary summary_of(const Process& process) {
  return {*process.figures, std::chrono::nanoseconds(0), /*is_end=*/true};
}

}  // namespace

std::string title_of_ended(const Process& process) {
  constexpr std::size_t kMostOfProgram = 80;
  const figures::ProcessFigures& figures = *process.figures;
  std::string program = report::printable(report::program_text(figures.program.get()));
  if (program.size() > kMostOfProgram) {
    program = report::printable(program.substr(0, kMostOfProgram - 3)) + "...";
  }
  return program + " (process " + std::to_string(figures.pid) + "), since " +
         time_text(figures.start_unix_ns) + ", ended without a summary";
}

std::vector<std::string> lines_of_ended(const Process& process) {
  std::vector<std::string> lines = summary_lines(summary_of(process));
  for (std::string& line : lines) {
    line = report::printable(line);
  }
  return lines;
}

std::string json_of_ended(const Process& process) {
  return summary_json(summary_of(process));
}

std::string tell_last_run() {
  const Processes ended = read_ended_processes();
  const auto last = std::ranges::find_if(ended.all, [](const Process& process) {
    return process.figures->run_pid != 0 && process.figures->told.load() == 0 &&
           process.figures->is_forked == 0 && process.user == geteuid();
  });
  if (last == ended.all.end()) {
    return {};
  }
  for (const Process& process : ended.all) {
    if (process.figures->run_pid != 0 && process.user == geteuid()) {
      note_as_told(process);  // one line stands for all of them
    }
  }
  std::uint64_t peak = 0;
  for (const std::size_t device : last->devices()) {
    peak = std::max(peak, figures::read(last->figures->devices[device].peak_bytes_in_use));
  }
  const std::string pid = std::to_string(last->figures->pid);
  return report::printable(report::program_name(last->figures->program.get())) + " (process " +
         pid + ") ended without a summary, with a peak of " + report::bytes_text(peak) +
         "; `cubfc last " + pid + "` tells more";
}

}  // namespace cubfc::live
