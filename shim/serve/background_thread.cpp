#include "shim/serve/background_thread.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>

namespace cubfc {
namespace {

// How long an exit waits for the thread, which may be inside the driver.
constexpr std::chrono::seconds kPatience{2};

}  // namespace

bool BackgroundThread::start_once() noexcept {
  if (started_.exchange(true)) {
    return true;
  }
  pid_ = getpid();
  running_ = true;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool made = pthread_create(&thread_, nullptr, &run, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (made) {
    on_exit(&stop, this);  // registered after the driver's own handlers, it runs before them
  } else {
    running_ = false;
  }
  return made;
}

void* BackgroundThread::run(void* self) noexcept {
  auto& thread = *static_cast<BackgroundThread*>(self);
  pthread_setname_np(pthread_self(), thread.name_);
  thread.work_.run();
  thread.running_.store(false, std::memory_order_release);
  return nullptr;
}

// A child inherits its parent's exit handlers, but not the thread.
void BackgroundThread::stop(int /*status*/, void* self) noexcept {
  auto& thread = *static_cast<BackgroundThread*>(self);
  if (thread.pid_ != getpid()) {
    return;
  }
  thread.work_.interrupt();
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += kPatience.count();
  pthread_timedjoin_np(thread.thread_, nullptr, &until);
}

}  // namespace cubfc
