// Gives unused memory back while the program is idle (CUBFC_TRIM_AFTER). In that time its thread
// looks four times whether the program has allocated or freed anything. When the program has done
// neither for so long, gives unused memory back once, and then waits until the program does so
// again. Knows nothing of memory.
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
