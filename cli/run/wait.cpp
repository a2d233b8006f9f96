#include "cli/run/wait.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cli/failure.h"
#include "cli/run/child_process.h"

namespace cubfc::cli {
namespace {

// The signals that run_and_wait() blocks and waits for: all that can be blocked, but for those by
// which a terminal stops its jobs. Those stop this process by themselves.
sigset_t awaited_signals() {
  sigset_t set;
  sigfillset(&set);
  for (const int signal : {SIGTSTP, SIGTTIN, SIGTTOU}) {
    sigdelset(&set, signal);
  }
  return set;
}

// Whether the terminal has sent the signal, to all its foreground processes: then the program has
// got it, too, and it is not passed on.
bool comes_to_both(const siginfo_t& info) {
  return info.si_code == SI_KERNEL &&
         (info.si_signo == SIGINT || info.si_signo == SIGQUIT || info.si_signo == SIGWINCH);
}

void pass_on(const siginfo_t& info, pid_t child) {
  if (info.si_code == SI_QUEUE) {
    sigqueue(child, info.si_signo, info.si_value);
  } else {
    kill(child, info.si_signo);
  }
}

// Ends this process as the child ended, but without a core dump.
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
  sigprocmask(SIG_BLOCK, &awaited, &before);  // or one between fork and wait would be lost
  // Where SIGCHLD is ignored, Linux does not tell how children end.
  struct sigaction of_child_before {};
  struct sigaction of_child {};
  of_child.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &of_child, &of_child_before);
  std::fflush(nullptr);
  const pid_t child = fork_with_this();  // the program is killed with this command
  if (child < 0) {
    throw Failure{std::string("no process can be made: ") + std::strerror(errno)};
  }
  if (child == 0) {
    sigaction(SIGCHLD, &of_child_before, nullptr);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execute();
    std::_Exit(EXIT_FAILURE);
  }
  // Gives up stdin and stdout, so that whoever reads the program's output does not wait for this
  // process as well.
  if (const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC); nothing >= 0) {
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDOUT_FILENO);
  }
  for (;;) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&awaited, &info);
    if (signal > 0 && signal != SIGCHLD && !comes_to_both(info) && info.si_pid != child) {
      pass_on(info, child);
    }
    int status = 0;
    pid_t changed = 0;
    while ((changed = waitpid(child, &status, WNOHANG | WUNTRACED)) == child) {
      if (WIFSTOPPED(status)) {
        raise(SIGSTOP);  // the shell sees its job stop
        kill(child, SIGCONT);
        continue;
      }
      at_end(child);
      end_as(status);
    }
    if (changed < 0 && errno == ECHILD) {
      at_end(child);
      std::_Exit(EXIT_FAILURE);  // how it ended cannot be known
    }
  }
}

}  // namespace cubfc::cli
