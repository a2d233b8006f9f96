// Keeps the file that CUBFC_SUMMARY names no older than a few seconds while the program runs, so
// that a program that is killed leaves its figures. Does not know what is written.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "shim/background/ticking_thread.h"

namespace cubfc {

// Thread-safe.
class SummaryKeeper {
 public:
  // Called on the thread, without any lock.
  struct Owner {
    std::function<void()> write;
    std::function<std::uint64_t()> operations;  // another number after each allocation and free
  };
  SummaryKeeper(bool is_wanted, Owner owner);

  bool is_wanted() const noexcept { return is_wanted_; }
  // Starts the thread. Called once, if is_wanted(). If no thread can be made, the file is written
  // only when the program ends.
  void start() noexcept { thread_.start_once(); }

 private:
  void look() noexcept;

  const Owner owner_;
  const bool is_wanted_;
  bool is_due_ = false;                   // used by the thread only
  std::optional<std::uint64_t> written_;  // operations() then. Used by the thread only
  TickingThread thread_;
};

}  // namespace cubfc
