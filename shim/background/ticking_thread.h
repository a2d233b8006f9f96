// A thread of cubfc's own that calls a function at intervals as long as the program runs.
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
  // kOwn: the thread has a descriptor table of its own, in which nothing is open. So the program
  // cannot close a descriptor that the thread has open, and open something else under its number.
  // If there can be no such table, the thread ends at once.
  enum class Descriptors : bool { kOfProcess, kOwn };
  TickingThread(const char* name, std::chrono::milliseconds interval, std::function<void()> tick,
                Descriptors descriptors = Descriptors::kOfProcess);

  // As BackgroundThread::start_once().
  bool start_once() noexcept { return thread_.start_once(); }

 private:
  void run() noexcept;
  void stop() noexcept;
  bool is_stopped_within(std::chrono::milliseconds time) noexcept;

  const std::chrono::milliseconds interval_;
  const std::function<void()> tick_;
  const Descriptors descriptors_;
  std::mutex mutex_;  // guards stopping_
  std::condition_variable stop_wanted_;
  bool stopping_ = false;
  BackgroundThread thread_;
};

}  // namespace cubfc
