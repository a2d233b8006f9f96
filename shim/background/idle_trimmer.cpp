#include "shim/background/idle_trimmer.h"

#include <algorithm>
#include <utility>

#include "shim/tell/log.h"

namespace cubfc {

IdleTrimmer::IdleTrimmer(std::optional<std::chrono::milliseconds> trim_after, Owner owner)
    : owner_(std::move(owner)),
      trim_after_(trim_after.value_or(std::chrono::milliseconds(0))),
      to_be_started_(trim_after.has_value()),
      thread_("cubfc-trim", {[this] { watch(); }, [this] { stop(); }}) {}

void IdleTrimmer::start() noexcept {
  if (to_be_started_.exchange(false) && !thread_.start_once()) {
    log::warn("CUBFC_TRIM_AFTER is without effect: no thread can be made");
  }
}

void IdleTrimmer::watch() noexcept {
  using Clock = std::chrono::steady_clock;
  const auto nap = std::max(trim_after_ / 4, std::chrono::milliseconds(1));
  std::uint64_t operations = owner_.operations();
  Clock::time_point since = Clock::now();
  bool trimmed = false;
  while (!is_stopped_within(nap) && !BackgroundThread::program_is_over()) {
    if (const std::uint64_t now = owner_.operations(); now != operations) {
      operations = now;
      since = Clock::now();
      trimmed = false;
    } else if (!trimmed && Clock::now() - since >= trim_after_) {
      if (const std::uint64_t bytes = owner_.trim(); bytes > 0) {
        log::info("idle: {} given back", log::bytes(bytes));
      }
      trimmed = true;
    }
  }
}

// Else sleeps for so long.
bool IdleTrimmer::is_stopped_within(std::chrono::milliseconds time) noexcept {
  std::unique_lock lock(mutex_);
  return stop_wanted_.wait_for(lock, time, [this] { return stopping_; });
}

void IdleTrimmer::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_wanted_.notify_one();
}

}  // namespace cubfc
