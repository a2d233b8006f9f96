// `cubfc last`: what was used by a process that has ended without a summary.
#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/live/ended.h"
#include "cli/live/processes.h"
#include "cli/numbers.h"
#include "cli/report/wording.h"
#include "shim/meet/shared_files.h"

namespace cubfc::cli {
namespace {

struct LastOptions {
  std::optional<pid_t> pid;
  bool all = false;
  bool json = false;
};

bool is_of(const figures::ProcessFigures& process, pid_t pid) {
  return process.pid == pid || process.run_pid == pid;
}

[[noreturn]] void none(const LastOptions& options) {
  const std::string kept =
      "the last " + std::to_string(kMostOutliving) + " that end without a summary are kept";
  if (!options.pid) {
    throw Failure{"no process of yours that has used GPU memory was killed (" + kept + ")"};
  }
  const std::string pid = std::to_string(*options.pid);
  for (const live::Process& process : live::read_processes().all) {
    if (is_of(*process.figures, *options.pid)) {
      throw Failure{"process " + pid + " still runs: `cubfc top` shows it"};
    }
  }
  throw Failure{"nothing is known of process " + pid +
                ": it told its summary when it ended, or has used no GPU memory (" + kept + ")"};
}

void show(const LastOptions& options) {
  const live::Processes ended = live::read_ended_processes();
  for (const std::string& problem : ended.unusable) {
    std::fprintf(stderr, "cubfc: %s\n", report::printable(problem).c_str());
  }
  std::vector<const live::Process*> wanted;
  for (const live::Process& process : ended.all) {
    if (!options.pid || is_of(*process.figures, *options.pid)) {
      wanted.push_back(&process);
    }
  }
  if (wanted.empty()) {
    none(options);
  }
  if (!options.pid && !options.all) {
    wanted.resize(1);
  }
  for (const live::Process* const process : wanted) {
    if (options.json) {
      std::printf("%s", live::json_of_ended(*process).c_str());
    } else {
      std::printf("%s\n", live::title_of_ended(*process).c_str());
      for (const std::string& line : live::lines_of_ended(*process)) {
        std::printf("  %s\n", line.c_str());
      }
    }
    live::note_as_told(*process);
  }
}

}  // namespace

void add_last(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "last", "What a run used that was killed, or ended in another way without a summary.");
  const auto options = std::make_shared<LastOptions>();
  command
      ->add_option("PID", options->pid,
                   "of the process, or of the cubfc run that it came from; without it the last")
      ->type_name("")
      ->check(process_number());
  command->add_flag("-a,--all", options->all, "all that are known, the last one first");
  command->add_flag("--json", options->json,
                    "as CUBFC_SUMMARY writes it, one object a line for each process");
  command->footer(
      "A process under cubfc keeps its figures in a file, which stays when it is killed (Ctrl-C, "
      "SIGTERM, SIGKILL), crashes or calls _exit. The last 16 of a user are kept; root sees those "
      "of all users. What exits normally tells its summary itself, and is not here; nor is a "
      "process that was started with CUBFC_SHARE_STATS=false.\n\n"
      "Exit status: 0; 1 there is none.");
  command->callback([options] { show(*options); });
}

}  // namespace cubfc::cli
