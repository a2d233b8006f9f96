// A thread of cubfc's own that does something now and then, as long as the program runs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "shim/background/background_thread.h"

namespace cubfc {

// Must live as long as the process. Thread-safe.
class TickingThread {
 public:
  // `name`: 15 characters at most. `tick` is called on the thread, `interval` after the thread has
  // begun and after each tick, without any lock; never again once the program's exit has begun.
  TickingThread(const char* name, std::chrono::milliseconds interval, std::function<void()> tick);

  // The first call starts it. False when there can be no thread.
  bool start_once() noexcept { return thread_.start_once(); }

 private:
  void run() noexcept;
  void stop() noexcept;
  bool is_stopped_within(std::chrono::milliseconds time) noexcept;

  const std::chrono::milliseconds interval_;
  const std::function<void()> tick_;
  std::mutex mutex_;  // guards stopping_
  std::condition_variable stop_wanted_;
  bool stopping_ = false;
  BackgroundThread thread_;
};

}  // namespace cubfc
