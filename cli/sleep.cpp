// `cubfc sleep` and `cubfc wake`: take the memory of an idle program away, and bring it back.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/live/processes.h"
#include "cli/numbers.h"
#include "cli/report/wording.h"
#include "shim/meet/sleep_mailbox.h"

namespace cubfc::cli {
namespace {

using sleep_mail::Request;

// A process copies its memory, some GB a second, and may have hundreds of GB on several GPUs.
constexpr std::chrono::minutes kPatienceForSleep{5};

// A line for the process, and whether it does what was asked.
struct Told {
  std::string line;
  bool is_done;
};
Told tell_of(int pid, Request request, const live::Processes& processes) {
  const std::string name = request == Request::kSleep ? "sleep" : "wake";
  const SleepAnswer answer = ask_to_sleep_or_wake(pid, request, kPatienceForSleep);
  switch (answer.kind) {
    case SleepAnswer::Kind::kDone:
      return {(request == Request::kSleep ? "asleep: " : "awake: ") + answer.text, true};
    case SleepAnswer::Kind::kRefused:
      return {(request == Request::kSleep ? "not asleep: " : "not awake: ") + answer.text, false};
    case SleepAnswer::Kind::kBusy:
      return {"another `cubfc " + name + "` is asking it; try again when that has ended", false};
    case SleepAnswer::Kind::kNone:
      return {"no answer: it is stopped, or has ended, or is still copying; `cubfc top` shows it",
              false};
    case SleepAnswer::Kind::kNobody:
      break;
  }
  const bool is_under_cubfc =
      std::any_of(processes.all.begin(), processes.all.end(),
                  [&](const live::Process& process) { return process.figures->pid == pid; });
  return {is_under_cubfc
              ? "cannot sleep: it was not started by `cubfc run --sleep`, or has used no GPU "
                "memory yet"
              : "no such process of this user's runs under cubfc; `cubfc top --once` lists them",
          false};
}

void ask_all(const std::vector<int>& pids, Request request) {
  const live::Processes processes = live::read_processes();
  bool are_all_done = true;
  for (const int pid : pids) {
    const Told told = tell_of(pid, request, processes);
    std::printf("pid %d: %s\n", pid, report::printable(told.line).c_str());
    std::fflush(stdout);
    are_all_done = are_all_done && told.is_done;
  }
  if (!are_all_done) {
    throw Failure{"", kFailed};
  }
}

void add_command(CLI::App& app, const char* name, const char* what, const char* footer,
                 Request request) {
  CLI::App* const command = app.add_subcommand(name, what);
  const auto pids = std::make_shared<std::vector<int>>();
  command->add_option("PID", *pids, "the process, or several")
      ->type_name("")
      ->required()
      ->check(process_number());
  command->footer(footer);
  command->callback([pids, request] { ask_all(*pids, request); });
}

}  // namespace

void add_sleep(CLI::App& app) {
  add_command(app, "sleep",
              "Takes the GPU memory of an idle program away, until it needs it again.", R"(
The bytes of all blocks go to the host, and the memory in which they lie goes back to the GPU.
The program notices nothing: its next call that needs the memory, or `cubfc wake`, brings the
same bytes back to the same addresses, and waits until that is done. Only a program that was
started by `cubfc run --sleep` can sleep. One that is working, or whose memory others may
reach, is not put to sleep, and it is said why.

Exit status: 0 all who were meant are asleep; 1 one is not.

Examples:
  cubfc run --sleep -- python serve.py
  cubfc sleep 4711)",
              Request::kSleep);
}

void add_wake(CLI::App& app) {
  add_command(app, "wake", "Brings the GPU memory of a sleeping program back.", R"(
Nobody has to: the program's next call that needs its memory does the same. It is for a program
that should answer at once when it is needed. If the GPU has too little memory, other programs
under cubfc are asked for what they do not use; if that is not enough, the program sleeps on, and
the same can be tried again.

Exit status: 0 all who were meant are awake; 1 one is not.

Example:
  cubfc wake 4711)",
              Request::kWake);
}

}  // namespace cubfc::cli
