#include "shim/serve/idle_trimmer.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "shim/tell/log.h"

namespace cubfc {
namespace {

// How long an exit waits for the thread, which may be inside the driver.
constexpr std::chrono::seconds kPatience{2};

}  // namespace

void IdleTrimmer::start() noexcept {
  if (!to_be_started_.exchange(false)) {
    return;
  }
  static IdleTrimmer* started = nullptr;
  started = this;
  pid_ = getpid();
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's handlers do not run on our thread
  const int error = pthread_create(
      &thread_, nullptr,
      [](void* trimmer) -> void* {
        pthread_setname_np(pthread_self(), "cubfc-trim");
        static_cast<IdleTrimmer*>(trimmer)->watch();
        return nullptr;
      },
      this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    log::warn("CUBFC_TRIM_AFTER is without effect: no thread can be made (error {})", error);
    return;
  }
  // Registered after the driver's own handlers, it runs before them.
  std::atexit([] { started->stop(); });
}

void IdleTrimmer::watch() noexcept {
  using Clock = std::chrono::steady_clock;
  const auto nap = std::max(trim_after_ / 4, std::chrono::milliseconds(1));
  std::uint64_t operations = owner_.operations();
  Clock::time_point since = Clock::now();
  bool trimmed = false;
  while (!is_stopped_within(nap)) {
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

// A child inherits its parent's exit handlers, but not the thread.
void IdleTrimmer::stop() noexcept {
  if (pid_ != getpid()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(stopping_, true)) {
      return;
    }
  }
  stop_wanted_.notify_one();
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kPatience.count();
  pthread_timedjoin_np(thread_, nullptr, &until);
}

}  // namespace cubfc
