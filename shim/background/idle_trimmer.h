// Gives unused memory back while the program is idle, as CUBFC_TRIM_AFTER asks for. Its thread
// looks four times in the time of CUBFC_TRIM_AFTER whether the program has allocated or freed
// anything. When it has not for so long, what is unused goes back, and no more is done until it
// allocates or frees again. Knows nothing of memory.
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
  // Called by the thread, without any lock.
  struct Owner {
    std::function<std::uint64_t()> trim;        // gives back what is unused; returns bytes
    std::function<std::uint64_t()> operations;  // another number after each allocation and free
  };
  IdleTrimmer(std::optional<std::chrono::milliseconds> trim_after, Owner owner);

  bool is_wanted() const noexcept { return is_wanted_; }
  // Once, where it is wanted.
  void start() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  void look() noexcept;

  const Owner owner_;
  const std::chrono::milliseconds trim_after_;
  const bool is_wanted_;
  // The thread's.
  std::optional<std::uint64_t> operations_;
  Clock::time_point since_;  // they are so many
  bool trimmed_ = false;
  TickingThread thread_;
};

}  // namespace cubfc
