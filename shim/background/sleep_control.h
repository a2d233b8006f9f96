// Puts the program to sleep when `cubfc sleep` asks for it, or when the program has called nothing
// that needs its memory for the time of CUBFC_SLEEP_AFTER. Wakes it when `cubfc wake` asks for it.
#pragma once

#include <chrono>
#include <optional>

#include "shim/background/background_thread.h"
#include "shim/meet/sleep_mailbox.h"

namespace cubfc {

class Sleeper;

// Thread-safe. Must live as long as the process.
class SleepControl {
 public:
  SleepControl(Sleeper& sleeper, std::optional<std::chrono::milliseconds> sleep_after);

  // Only a program that can sleep has this thread.
  bool is_wanted() const noexcept;
  // Starts the thread. Called once, if is_wanted().
  void start() noexcept;
  // Called at the end of the process: removes the mailbox.
  void leave() noexcept { mailbox_.leave(); }

 private:
  using Clock = std::chrono::steady_clock;
  void run() noexcept;
  void look_whether_idle() noexcept;

  Sleeper& sleeper_;
  const std::optional<std::chrono::milliseconds> sleep_after_;
  SleepMailbox mailbox_;
  // Used by the thread only: since when the program has called nothing.
  Clock::time_point idle_since_;
  BackgroundThread thread_;
};

}  // namespace cubfc
