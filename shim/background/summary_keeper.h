// Keeps the file that CUBFC_SUMMARY names no older than a few seconds while the program runs, so
// that a program that is killed leaves its figures. What is written is not known here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "shim/background/ticking_thread.h"

namespace cubfc {

// Thread-safe.
class SummaryKeeper {
 public:
  // Called by the thread, without any lock.
  struct Owner {
    std::function<void()> write;
    std::function<std::uint64_t()> operations;  // another number after each allocation and free
  };
  SummaryKeeper(bool is_wanted, Owner owner);

  bool is_wanted() const noexcept { return is_wanted_; }
  // Once, where it is wanted. Without a thread the file is written when the program ends.
  void start() noexcept { thread_.start_once(); }

 private:
  void look() noexcept;

  const Owner owner_;
  const bool is_wanted_;
  bool is_due_ = false;                   // the thread's
  std::optional<std::uint64_t> written_;  // operations then. The thread's
  TickingThread thread_;
};

}  // namespace cubfc
