// A thread of cubfc's own. None of the program's signal handlers run on it. The program's exit ends
// it before the driver's own exit handlers run.
#pragma once

#include <pthread.h>

#include <atomic>
#include <functional>
#include <utility>

#include "shim/loader/fork_mark.h"

namespace cubfc {

// Must live as long as the process.
class BackgroundThread {
 public:
  struct Work {
    std::function<void()> run;        // on the thread
    std::function<void()> interrupt;  // makes run() return soon. Called once, by the exit
  };
  // `name`: 15 characters at most.
  BackgroundThread(const char* name, Work work) : name_(name), work_(std::move(work)) {}

  // The first call starts the thread, and returns false if none can be made. Later calls do nothing
  // and return true. Thread-safe.
  bool start_once() noexcept;
  // Whether the thread may still be in run().
  bool is_running() const noexcept { return running_.load(std::memory_order_acquire); }

  // Whether all threads of the process but cubfc's own have ended. run() must ask now and then, and
  // return when it is so, or the process would not end. Where there is no /proc, the main thread's
  // end is enough.
  static bool program_is_over() noexcept;

 private:
  static void* run(void* self) noexcept;
  static void stop(int status, void* self) noexcept;

  const char* const name_;
  const Work work_;
  const ForkMark mark_;
  std::atomic<bool> started_{false};
  std::atomic<bool> running_{false};
  pthread_t thread_{};
};

}  // namespace cubfc
