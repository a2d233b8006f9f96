#include "shim/background/ticking_thread.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace cubfc {

TickingThread::TickingThread(const char* name, std::chrono::milliseconds interval,
                             std::function<void()> tick, Descriptors descriptors)
    : interval_(std::max(interval, std::chrono::milliseconds(1))),
      tick_(std::move(tick)),
      descriptors_(descriptors),
      thread_(name, {[this] { run(); }, [this] { stop(); }}) {}

void TickingThread::run() noexcept {
  constexpr unsigned kUnshare = 2;  // CLOSE_RANGE_UNSHARE, of Linux 5.9
  if (descriptors_ == Descriptors::kOwn && syscall(SYS_close_range, 0U, ~0U, kUnshare) != 0) {
    return;
  }
  while (!is_stopped_within(interval_) && !BackgroundThread::program_is_over()) {
    tick_();
  }
}

// Sleeps for so long, or until stop() is called: true then.
bool TickingThread::is_stopped_within(std::chrono::milliseconds time) noexcept {
  std::unique_lock lock(mutex_);
  return stop_wanted_.wait_for(lock, time, [this] { return stopping_; });
}

void TickingThread::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stop_wanted_.notify_one();
}

}  // namespace cubfc
