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

// All that a program may be sent, and can be kept from ending this process. What stops a terminal's
// jobs stops this process by itself.
sigset_t awaited_signals() {
  sigset_t set;
  sigfillset(&set);
  for (const int signal : {SIGTSTP, SIGTTIN, SIGTTOU}) {
    sigdelset(&set, signal);
  }
  return set;
}

// What the terminal sends its foreground processes, the program gets itself.
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
  // Where it is ignored, Linux tells nothing of children.
  struct sigaction of_child_before {};
  struct sigaction of_child {};
  of_child.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &of_child, &of_child_before);
  std::fflush(nullptr);
  const pid_t child = fork_with_this();  // who kills this command kills the program
  if (child < 0) {
    throw Failure{std::string("no process can be made: ") + std::strerror(errno)};
  }
  if (child == 0) {
    sigaction(SIGCHLD, &of_child_before, nullptr);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execute();
    std::_Exit(EXIT_FAILURE);
  }
  // Whoever reads what the program writes is not to wait for this process, too.
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
      std::_Exit(EXIT_FAILURE);  // nobody can tell how it ended
    }
  }
}

}  // namespace cubfc::cli
