#include "shim/sleep/threads_in_calls.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "shim/loader/threads.h"
#include "shim/patience.h"
#include "shim/sleep/gates.h"

namespace cubfc {
namespace {

bool has_ended(pid_t thread) noexcept {
  return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}

// Whether this thread is in a call. kUnknown: it has no list, or its cell cannot be read. For a
// moment that is so of a thread that is beginning or ending; the caller looks again.
ThreadsInCalls look_at(pid_t thread) noexcept {
  using Found = ThreadsInCalls::Found;
  const auto own_list = reinterpret_cast<std::uintptr_t>(list_of_mutexes(0));
  const auto list = reinterpret_cast<std::uintptr_t>(list_of_mutexes(thread));
  if (own_list == 0 || list == 0) {
    return {has_ended(thread) ? Found::kNone : Found::kUnknown, thread};
  }
  gates::Cell cell{};
  const std::uintptr_t own_cell = reinterpret_cast<std::uintptr_t>(&gates::own_cell());
  const iovec here{&cell, sizeof cell};
  const iovec there{reinterpret_cast<void*>(list + (own_cell - own_list)), sizeof cell};
  if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != static_cast<ssize_t>(sizeof cell) ||
      cell.magic != gates::kMagic) {
    return {has_ended(thread) ? Found::kNone : Found::kUnknown, thread};
  }
  return {cell.calls == 0 ? Found::kNone : Found::kSome, thread};
}

}  // namespace

ThreadsInCalls look_at_threads() noexcept {
  using Found = ThreadsInCalls::Found;
  ThreadsInCalls all{Found::kNone, 0};
  const auto own = static_cast<pid_t>(syscall(SYS_gettid));
  const bool is_listed = for_each_thread([&](pid_t thread) {
    const ThreadsInCalls one =
        thread == own ? ThreadsInCalls{Found::kNone, thread} : look_at(thread);
    if (one.found != Found::kNone && all.found != Found::kUnknown) {
      all = one;
    }
  });
  return is_listed ? all : ThreadsInCalls{Found::kUnknown, 0};
}

// The kernel may pass over a thread while others end. So all threads must be found outside of calls
// twice in a row. No thread enters a call meanwhile, as the gates are stopped, with one exception:
// a gate that some thread is just setting up may let calls pass (set_target() in gates.cpp). Until
// it is done, that thread counts as in a call. The first look that finds it done may miss a call
// that has passed its gate; the second look sees that call.
ThreadsInCalls wait_for_threads(std::chrono::milliseconds most,
                                const std::function<bool()>& gives_up) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + most;
  std::chrono::nanoseconds pause = patience::kShortestPause;
  for (int in_a_row = 0;;) {
    const ThreadsInCalls now = look_at_threads();
    in_a_row = now.found == ThreadsInCalls::Found::kNone ? in_a_row + 1 : 0;
    if (in_a_row == 2 || Clock::now() >= until || gives_up()) {
      return in_a_row == 2 || now.found != ThreadsInCalls::Found::kNone
                 ? now
                 : ThreadsInCalls{ThreadsInCalls::Found::kUnknown, 0};
    }
    gates::synchronize_threads();
    if (in_a_row == 0) {
      const timespec time{0, static_cast<long>(pause.count())};
      nanosleep(&time, nullptr);
      pause = std::min<std::chrono::nanoseconds>(2 * pause, patience::kLongestPause);
    }
  }
}

}  // namespace cubfc
