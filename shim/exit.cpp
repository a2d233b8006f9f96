#include "shim/exit.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>

#include "shim/background/soft_reserve.h"
#include "shim/environment.h"
#include "shim/process.h"
#include "shim/record/trace_recorder.h"
#include "shim/serve/failed_requests.h"
#include "shim/share/ipc.h"
#include "shim/tell/log.h"
#include "shim/tell/program.h"
#include "shim/tell/summary.h"
#include "shim/tell/summary_file.h"

namespace cubfc {
namespace {

constexpr std::size_t kMostOfCommand = 60;  // bytes, in a message

// Runs after the exit handlers of the program, which may still share memory, and allocate. Removes
// the files of this process and ends the trace, by system calls of its own: other preloaded
// libraries that override functions of the C library may have ended before this destructor runs.
[[gnu::section(".text.startup")]] __attribute__((destructor)) void at_end() noexcept {
  Process* const process = Process::existing();
  if (process != nullptr && !process->is_in_child()) {
    process->ipc().leave();
    process->leave_files();
    if (process->trace() != nullptr) {
      process->trace()->close();
    }
  }
}

// Does everything else that is to be done at exit, once for each Process.
void at_exit() noexcept {
  static std::atomic<const Process*> done{nullptr};
  Process* const process = Process::existing();
  if (process == nullptr || process->is_in_child() || done.exchange(process) == process) {
    return;  // a child that makes a Process has its parent's handler, too
  }
  process->soft_reserve().leave();
  process->failed_requests().finish();
  if (process->trace() != nullptr) {
    process->trace()->flush();
    process->trace()->tell_problem();
  }
  const Summary summary{process->figures(), process->time_in_calls(), /*is_end=*/true};
  if (!process->summary_path().empty()) {
    write_summary(process->summary_path(), summary);
  }
  if (!process->policy().show_stats.value) {
    return;
  }
  try {
    log::always(summary_lines(summary));
  } catch (...) {  // the program's exit goes on
  }
}

// Registered only in the process that `cubfc run` has become. If that process has allocated no GPU
// memory itself, says so in the log: the user has asked for cubfc, and there is no summary.
void at_exit_of_run() noexcept try {
  const Process* const process = Process::existing();
  const config::Policy& policy = policy_of_process();
  if (!is_process_of_run() || policy.disable.value || Process::stands_aside() ||
      (process != nullptr && !summary_lines({process->figures(), {}, true}).empty())) {
    return;
  }
  log::start(policy.log_level.value, policy.log_file.value.value_or(""));
  log::info("{} (process {}) has allocated no GPU memory itself", command_line(kMostOfCommand),
            getpid());
} catch (...) {  // the program's exit goes on
}

[[gnu::section(".text.startup")]] __attribute__((constructor)) void watch_exit_of_run() noexcept {
  if (is_process_of_run()) {
    std::atexit(&at_exit_of_run);
    std::at_quick_exit(&at_exit_of_run);
  }
}

}  // namespace

void finish_at_exit() {
  std::atexit(&at_exit);
  std::at_quick_exit(&at_end);  // the last one registered runs first
  std::at_quick_exit(&at_exit);
}

}  // namespace cubfc
