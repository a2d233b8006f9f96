#include "cli/run/wait.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/failure.h"

namespace cubfc::cli {
namespace {

// What a user or a job's system sends to a program. SIGTSTP and SIGSTOP stop this process by
// themselves.
constexpr std::array kPassedOn{SIGHUP,  SIGINT,  SIGQUIT,  SIGTERM,
                               SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM};

sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kPassedOn) {
    sigaddset(&set, signal);
  }
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGCONT);
  return set;
}

// As the child ended, without a core of this process's.
[[noreturn]] void end_as(int status) {
  std::fflush(nullptr);
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    prctl(PR_SET_DUMPABLE, 0);
    std::signal(signal, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
    raise(signal);
    std::_Exit(128 + signal);  // where the signal is ignored
  }
  std::_Exit(WEXITSTATUS(status));
}

}  // namespace

void run_and_wait(const std::function<void()>& execute,
                  const std::function<void(int child)>& at_end) {
  const sigset_t awaited = awaited_signals();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &awaited, &before);  // or one would be lost between fork and wait
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    throw Failure{std::string("no process can be made: ") + std::strerror(errno)};
  }
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execute();
    std::_Exit(EXIT_FAILURE);
  }
  for (;;) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&awaited, &info);
    if (signal == SIGCONT) {
      kill(child, SIGCONT);
    } else if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL &&
               info.si_pid != child) {
      kill(child, signal);
    }
    int status = 0;
    while (waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
      if (WIFSTOPPED(status)) {
        raise(SIGSTOP);  // the shell sees its job stop
        kill(child, SIGCONT);
        continue;
      }
      at_end(child);
      end_as(status);
    }
  }
}

}  // namespace cubfc::cli
