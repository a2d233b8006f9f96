// `cubfc trim`: has processes under cubfc give back to the GPU what they do not use.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/live/processes.h"
#include "cli/live/users.h"
#include "cli/numbers.h"
#include "cli/report/program_name.h"
#include "cli/report/wording.h"
#include "shim/meet/rendezvous.h"
#include "shim/tell/format.h"

namespace cubfc::cli {
namespace {

using figures::read;
using report::bytes_text;
using report::printable;

// How long a process has to answer. The machine may be busy; a user waits so long for nothing only
// where a process hangs.
constexpr std::chrono::seconds kPatienceForAnswer{20};

struct TrimWords {
  int pid = 0;
  bool all = false;
};

// An allocator with a cache of its own, which counts as in use to cubfc, and how the cache's memory
// comes back.
struct Cache {
  std::string_view caller;  // how the file name of its library begins
  const char* advice;
};
constexpr std::array<Cache, 4> kCaches{
    {{"libc10_cuda.",
      "is PyTorch's: torch.cuda.empty_cache() in it gives back what of it is cache"},
     {"librmm.", "is RMM's: what its pool keeps comes back when the pool is destroyed"},
     {"xla_cuda_plugin.", "is JAX's: its own arena keeps what it has until the process ends"},
     {"libtensorflow", "is TensorFlow's: its own arena keeps what it has until the process ends"}}};

// The figures of the process that has answered, and the device's place in them. Nothing where the
// process does not share its figures (CUBFC_SHARE_STATS=false).
struct Place {
  const live::Process* process;
  std::size_t device;
};
std::optional<Place> place_of(const Rendezvous::Answer& answer, const live::Processes& processes) {
  for (const live::Process& process : processes.all) {
    for (const std::size_t device : process.devices()) {
      const auto& uuid = process.figures->devices[device].uuid;
      if (process.figures->pid == answer.pid &&
          std::memcmp(uuid.data(), answer.device.data(), answer.device.size()) == 0) {
        return Place{&process, device};
      }
    }
  }
  return std::nullopt;
}

std::string row(std::string_view pid, std::string_view gpu, std::string_view came_back,
                std::string_view in_use, std::string_view taken, std::string_view program) {
  return format("{:>8} {:>4} {:>12} {:>12} {:>12}  {}\n", pid, gpu, came_back, in_use, taken,
                program);
}

std::string row_of(const Rendezvous::Answer& answer, const std::optional<Place>& place) {
  const std::string given = answer.is_answered ? bytes_text(answer.given) : "no answer";
  if (!place) {
    return row(std::to_string(answer.pid), "?", given, "?", "?", "(its figures are not shared)");
  }
  const figures::ProcessFigures& figures = *place->process->figures;
  const figures::DeviceFigures& device = figures.devices[place->device];
  return row(std::to_string(answer.pid), std::to_string(device.number), given,
             bytes_text(figures::sum_of(figures, place->device).in_use),
             bytes_text(read(device.bytes_taken)),
             printable(report::program_text(figures.program.get())));
}

// A line for each cache in kCaches that has memory of the device, and how that memory comes back.
std::string advice_for(const Place& place) {
  const figures::ProcessFigures& figures = *place.process->figures;
  const figures::Sums sums = figures::sum_of(figures, place.device);
  std::string text;
  for (const figures::CallerPart& part : figures::callers_of(figures, sums, figures::When::kNow)) {
    const auto cache = std::find_if(kCaches.begin(), kCaches.end(), [&](const Cache& each) {
      return part.name.starts_with(each.caller);
    });
    if (cache != kCaches.end()) {
      text += "pid " + std::to_string(figures.pid) + ": " + bytes_text(part.bytes) +
              " of what is in use " + cache->advice + "\n";
    }
  }
  return text;
}

// Whether a signal or a debugger has stopped the process. Not known of a process in another PID
// namespace.
bool is_stopped(std::int32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  // proc(5): PID (NAME) STATE ..., and a name may have parentheses.
  const std::size_t state = line.rfind(") ");
  return state != std::string::npos && (line[state + 2] == 'T' || line[state + 2] == 't');
}

// A line for each process that was meant and has not been asked. Processes of other users cannot be
// asked, nor can those that hold what they have.
std::string silent_ones(const TrimWords& words, const std::vector<Rendezvous::Answer>& answers,
                        const live::Processes& processes) {
  std::string text;
  for (const live::Process& process : processes.all) {
    const bool is_meant = words.all || process.figures->pid == words.pid;
    if (is_meant && !process.devices().empty() &&
        std::none_of(answers.begin(), answers.end(), [&](const Rendezvous::Answer& answer) {
          return answer.pid == process.figures->pid;
        })) {
      const std::string pid = std::to_string(process.figures->pid);
      const std::string user = printable(live::user_name(process.user));
      text += "pid " + pid +
              (process.user == geteuid() ? ": cannot be asked: it holds what it has (a fraction or "
                                           "CUBFC_PREALLOCATE=true is set)\n"
                                         : ": not asked: it is " + user + "'s; `sudo -u " + user +
                                               " cubfc trim " + pid + "` asks it\n");
    }
  }
  return text;
}

void trim(const TrimWords& words) {
  if (words.all == (words.pid != 0)) {
    throw Failure{"trim: which process? Its number, or --all; `cubfc top --once` lists them",
                  kUsage};
  }
  Rendezvous rendezvous;
  const std::vector<Rendezvous::Answer> answers =
      rendezvous.ask_for_all(words.all ? std::nullopt : std::optional(words.pid),
                             {.most = kPatienceForAnswer, .is_stopped = is_stopped});
  rendezvous.leave();
  const live::Processes processes = live::read_processes();
  const std::string silent = silent_ones(words, answers, processes);
  if (answers.empty() && silent.empty()) {
    throw Failure{words.all
                      ? "trim: no process of this user's runs under cubfc"
                      : "trim: no process " + std::to_string(words.pid) +
                            " of this user's runs under cubfc; `cubfc top --once` lists them"};
  }
  std::string text =
      answers.empty() ? "" : row("PID", "GPU", "CAME BACK", "IN USE", "TAKEN", "PROGRAM");
  std::string advice;
  bool are_all_answered = silent.empty();
  for (const Rendezvous::Answer& answer : answers) {
    const std::optional<Place> place = place_of(answer, processes);
    text += row_of(answer, place);
    advice += place ? advice_for(*place) : "";
    are_all_answered = are_all_answered && answer.is_answered;
  }
  std::fputs((text + advice + silent).c_str(), stdout);
  if (!are_all_answered) {
    throw Failure{"", kFailed};
  }
}

}  // namespace

void add_trim(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("trim", "Has processes under cubfc give unused memory back to the GPU.");
  const auto words = std::make_shared<TrimWords>();
  command->add_option("PID", words->pid, "the process")->type_name("")->check(process_number());
  command->add_flag("--all", words->all, "all processes of this user's");
  command->footer(R"(
What was preallocated and what holds no block goes back, beside a running program and without its
help. A process with a fraction or CUBFC_PREALLOCATE=true set holds what it has, and says so.
Blocks that the program has not freed stay: a framework's own cache is in use to cubfc. What came
back is shown for each process, and what it still has. Root sees everybody's
processes, but asks its own alone: whose the others are is said. Who is stopped (SIGSTOP,
a debugger) is not waited for, and who hangs for 20 seconds at most.

Exit status: 0 all who were meant have answered; 1 one has not, or there is none.

Examples:
  cubfc trim 4711
  cubfc trim --all)");
  command->callback([words] { trim(*words); });
}

}  // namespace cubfc::cli
