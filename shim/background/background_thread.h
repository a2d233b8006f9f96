// A thread of cubfc's own, beside the program's: none of the program's signal handlers run on it,
// and the program's exit ends it before it reaches the driver.
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
    std::function<void()> interrupt;  // makes it return soon. Called once, by the exit
  };
  // `name`: 15 characters at most.
  BackgroundThread(const char* name, Work work) : name_(name), work_(std::move(work)) {}

  // The first call starts it; later ones do nothing. False when there can be no thread.
  // Thread-safe.
  bool start_once() noexcept;
  // Whether it may be in the midst of something.
  bool is_running() const noexcept { return running_.load(std::memory_order_acquire); }

  // Whether all threads of the process have ended but such as this. Then `run` has to return: with
  // the last thread the process ends. Where there is no /proc, the main thread's end is enough.
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
