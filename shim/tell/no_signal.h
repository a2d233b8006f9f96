// A scope in which a signal that a write of cubfc's may cause does not reach the program, which
// would die of it: SIGPIPE from a pipe that nobody reads, SIGXFSZ from a file that must not become
// larger. The write returns an error then.
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

namespace cubfc {

class NoSignal {
 public:
  explicit NoSignal(int signal) {
    sigemptyset(&ours_);
    sigaddset(&ours_, signal);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, signal) == 1;
    pthread_sigmask(SIG_BLOCK, &ours_, &before_);
  }
  // Removes the signal that the write has made pending, if any. Makes the system call itself,
  // because the C library's function is a cancellation point.
  ~NoSignal() {
    constexpr timespec kNow{0, 0};
    constexpr unsigned kSignals = 64;
    if (!was_pending_) {
      syscall(SYS_rt_sigtimedwait, &ours_, nullptr, &kNow, kSignals / 8);
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSignal(const NoSignal&) = delete;
  NoSignal& operator=(const NoSignal&) = delete;

 private:
  sigset_t ours_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace cubfc
