// While it lives, a signal that a write of ours may cause does not reach the program, which would
// die of a message or a file of ours: SIGPIPE of a pipe that nobody reads, SIGXFSZ of a file that
// may not become larger. The write answers an error then.
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
  // Takes ours, if there is one. By the system call: the C library's function is a cancellation
  // point.
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
