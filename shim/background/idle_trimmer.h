// Gives unused memory back when the program has neither allocated nor freed for the time that
// CUBFC_TRIM_AFTER says. Its thread looks four times in each such time whether the program has done
// either. Gives memory back once, and not again before the program has allocated or freed. Knows
// nothing of memory itself: Owner does the work.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "shim/background/ticking_thread.h"

namespace cubfc {

// Thread-safe.
class IdleTrimmer {
 public:
  // Called on the thread, without any lock.
  struct Owner {
    std::function<std::uint64_t()> trim;        // gives unused memory back; returns bytes
    std::function<std::uint64_t()> operations;  // another number after each allocation and free
  };
  IdleTrimmer(std::optional<std::chrono::milliseconds> trim_after, Owner owner);

  bool is_wanted() const noexcept { return is_wanted_; }
  // Starts the thread. Called once, if is_wanted().
  void start() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  void look() noexcept;

  const Owner owner_;
  const std::chrono::milliseconds trim_after_;
  const bool is_wanted_;
  // Used by the thread only.
  std::optional<std::uint64_t> operations_;
  Clock::time_point since_;  // when operations_ was set
  bool trimmed_ = false;
  TickingThread thread_;
};

}  // namespace cubfc
