#include "arena/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

#include "arena/kept_errno.h"

namespace cubfc::arena {
namespace {

// How often a thread looks at a lock that is held before it sleeps, and the longest pause between
// two looks. Each look takes the cache line away from the holder, so they become rare.
constexpr int kLooks = 40;
constexpr int kLongestPause = 64;

// How long a sleeping thread sleeps if no thread wakes it: 0.1 ms.
constexpr timespec kNap{0, 100'000};

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // "yield" does nothing on most cores
#endif
}

// A futex is an int in memory, and so is this atomic.
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

}  // namespace

void Lock::wait_and_lock() noexcept {
  const auto try_lock = [this] {
    std::uint32_t unlocked = 0;
    return held_.load(std::memory_order_relaxed) == 0 &&
           held_.compare_exchange_strong(unlocked, 1, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  };
  int pauses = 8;
  for (int look = 0; look < kLooks; ++look) {
    for (int i = 0; i < pauses; ++i) {
      pause();
    }
    if (try_lock()) {
      return;
    }
    pauses = pauses < kLongestPause ? pauses * 2 : kLongestPause;
  }
  const KeptErrno kept;
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  while (!try_lock()) {
    // Returns at once if the lock is not held any more. The loop need not tell signals, time-outs
    // and wake-ups apart.
    syscall(SYS_futex, &held_, FUTEX_WAIT_PRIVATE, 1, &kNap, nullptr, 0);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

void Lock::wake_one() noexcept {
  const KeptErrno kept;
  syscall(SYS_futex, &held_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace cubfc::arena
