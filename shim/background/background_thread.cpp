#include "shim/background/background_thread.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "shim/loader/threads.h"
#include "shim/patience.h"

namespace cubfc {
namespace {

std::atomic<int> running_threads{0};

// Whether a file of /proc could not be opened because it does not exist here, or must not be
// opened. Other errors, such as a lack of descriptors, may be gone at the next try.
bool is_out_of_reach(int error) noexcept {
  return error == ENOENT || error == ENOTDIR || error == EACCES || error == EPERM;
}

// Whether the main thread has ended. Without /proc: whether it has lost its list of robust mutexes.
// If the calling thread, too, seems to have no such list, the lists tell nothing: false.
bool main_has_ended() noexcept {
  std::array<char, 512> text{};
  const int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return is_out_of_reach(errno) && list_of_mutexes(0) != nullptr &&
           list_of_mutexes(getpid()) == nullptr;
  }
  const ssize_t length = read(file, text.data(), text.size() - 1);
  close(file);
  const char* const name_end = length > 0 ? std::strrchr(text.data(), ')') : nullptr;
  return name_end != nullptr && name_end[1] == ' ' && name_end[2] == 'Z';
}

// Whether there are threads besides the main one and cubfc's own. (After its end the main thread is
// still listed.) Without /proc nobody can tell, and the program's end must not wait for cubfc:
// false.
bool program_has_threads() noexcept {
  int count = 0;
  return for_each_thread([&](pid_t /*thread*/) { ++count; }) ? count != 1 + running_threads.load()
                                                             : !is_out_of_reach(errno);
}

}  // namespace

// Looks about once a second at most; the calls in between answer false.
bool BackgroundThread::program_is_over() noexcept {
  using Clock = std::chrono::steady_clock;
  static std::atomic<Clock::rep> next_look{0};
  const auto now = Clock::now().time_since_epoch();
  Clock::rep due = next_look;
  const Clock::rep next = (now + patience::kLookForEnd).count();
  return due <= now.count() && next_look.compare_exchange_strong(due, next) && main_has_ended() &&
         !program_has_threads();
}

bool BackgroundThread::start_once() noexcept {
  if (started_.exchange(true)) {
    return true;
  }
  running_ = true;
  ++running_threads;
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
    --running_threads;
  }
  return made;
}

void* BackgroundThread::run(void* self) noexcept {
  auto& thread = *static_cast<BackgroundThread*>(self);
  pthread_setname_np(pthread_self(), thread.name_);
  thread.work_.run();
  thread.running_.store(false, std::memory_order_release);
  --running_threads;
  return nullptr;
}

// A child inherits its parent's exit handlers, but not the thread.
void BackgroundThread::stop(int /*status*/, void* self) noexcept {
  auto& thread = *static_cast<BackgroundThread*>(self);
  if (thread.mark_.is_in_child()) {
    return;
  }
  thread.work_.interrupt();
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += patience::kForDriverCall.count();
  if (pthread_equal(thread.thread_, pthread_self()) == 0) {  // else this thread itself exits
    pthread_timedjoin_np(thread.thread_, nullptr, &until);
  }
}

}  // namespace cubfc
