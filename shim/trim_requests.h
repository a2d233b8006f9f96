// Who asks for unused memory to be given back: other processes of the user, through a page that
// they share with this one; and time, under CUBFC_TRIM_AFTER. Knows nothing of memory.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "config/policy.h"

namespace cubfc {

// The page, as other processes see it. Written with atomic accesses.
struct SharedPage {
  std::array<char, 8> magic;  // kMagic
  std::uint32_t version;
  std::uint32_t pid;
  std::uint32_t bell;           // a futex: rung after each request
  std::uint32_t requests;       // how often trimming was asked for
  std::uint32_t answered;       // how many of those have been seen to
  std::uint32_t preallocated;   // asked for in one of them: what was preallocated, too
  std::uint64_t trimmed_bytes;  // given back at all requests together
  static constexpr std::array<char, 8> kMagic{'c', 'u', 'b', 'f', 'c', 'p', 'g', '1'};
};

// Thread-safe.
class TrimRequests {
 public:
  // Called without any lock, one at a time: to give back, and to tell whether the program has
  // allocated or freed anything, by a number that is another one then.
  struct Owner {
    std::function<std::uint64_t(bool preallocated)> trim;  // returns bytes
    std::function<std::uint64_t()> operations;
  };
  TrimRequests(const config::Policy& policy, Owner owner)
      : policy_(policy), owner_(std::move(owner)) {}

  // At each allocation: sees to what other processes have asked for. The first call makes the page,
  // and the thread where there is to be one.
  void look() noexcept {
    SharedPage* const page = page_.load(std::memory_order_acquire);
    if (page == nullptr) {
      begin();
    } else if (std::atomic_ref(page->requests).load(std::memory_order_relaxed) !=
               seen_.load(std::memory_order_relaxed)) {
      answer();
    }
  }

  // The process ends: the thread, too, and the file goes.
  void leave() noexcept;

 private:
  void begin() noexcept;
  void start_thread() noexcept;
  void answer() noexcept;
  void watch() noexcept;
  void wait_for_bell(std::uint32_t last, std::chrono::milliseconds time) noexcept;

  const config::Policy& policy_;
  const Owner owner_;
  std::atomic<bool> begun_{false};
  std::atomic<SharedPage*> page_{nullptr};  // or private_, where there is no file
  SharedPage private_{};
  std::string path_;
  pid_t owner_pid_ = 0;                 // a child that was forked later has neither page nor thread
  std::atomic<std::uint32_t> seen_{0};  // requests
  std::atomic<bool> answering_{false};
  std::atomic<bool> stopping_{false};
  std::optional<pthread_t> thread_;
};

// Asks the process to give back what it does not use. One that is idle does so if it has a thread
// for it (CUBFC_TRIM_AFTER), else at its next allocation. False when it is not under cubfc, is
// another user's, or has not allocated yet. Throws std::bad_alloc.
bool request_trim(pid_t process, bool preallocated);

}  // namespace cubfc
