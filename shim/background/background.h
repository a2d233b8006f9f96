// Starts the threads of IdleTrimmer, SummaryKeeper and SleepControl, each if the policy asks for
// it. start_once() is called by requests for device memory that the fast path does not serve, so a
// program that asks for no memory has no such thread. (SoftReserve starts its thread itself.)
#pragma once

#include <atomic>

#include "shim/background/idle_trimmer.h"
#include "shim/background/sleep_control.h"
#include "shim/background/summary_keeper.h"

namespace cubfc {

// Thread-safe.
class Background {
 public:
  Background(IdleTrimmer& trimmer, SummaryKeeper& summary, SleepControl& sleep)
      : trimmer_(trimmer),
        summary_(summary),
        sleep_(sleep),
        to_be_started_(trimmer.is_wanted() || summary.is_wanted() || sleep.is_wanted()) {}

  void start_once() noexcept {
    if (to_be_started_.load(std::memory_order_relaxed)) {
      start();
    }
  }

 private:
  [[gnu::noinline]] void start() noexcept {
    if (!to_be_started_.exchange(false)) {
      return;
    }
    if (trimmer_.is_wanted()) {
      trimmer_.start();
    }
    if (summary_.is_wanted()) {
      summary_.start();
    }
    if (sleep_.is_wanted()) {
      sleep_.start();
    }
  }

  IdleTrimmer& trimmer_;
  SummaryKeeper& summary_;
  SleepControl& sleep_;
  std::atomic<bool> to_be_started_;
};

}  // namespace cubfc
