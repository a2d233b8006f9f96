// Counts the threads that are calling an arena's source, and lets other threads wait until such
// calls have ended. A thread does not hold the arena's lock while it calls the source.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "arena/lock.h"

namespace cubfc::arena {

using Locked = std::unique_lock<Lock>;

// Each function but this_thread_is_inside() is called with the arena's lock held.
class SourceCalls {
 public:
  // Unlocks, makes `call`, locks again, and returns what `call` returned. Meanwhile other threads
  // that must grow the arena wait.
  template <typename Call>
  auto without_lock(Locked& lock, Call call) {
    ++growing_;
    lock.unlock();
    const bool nested = std::exchange(this_thread_is_inside_, true);
    const auto result = call();
    this_thread_is_inside_ = nested;
    lock.lock();
    --growing_;
    ended_.notify_all();
    return result;
  }

  // While an object of this class lives, this thread counts as one that gives memory back, and as
  // one that is inside the source, whether it holds the lock or not.
  class Release {
   public:
    explicit Release(SourceCalls& calls)
        : calls_(calls), nested_(std::exchange(this_thread_is_inside_, true)) {
      ++calls_.releasing_;
    }
    Release(const Release&) = delete;
    Release& operator=(const Release&) = delete;
    ~Release() {
      --calls_.releasing_;
      calls_.ended_.notify_all();
      this_thread_is_inside_ = nested_;
    }

   private:
    SourceCalls& calls_;
    const bool nested_;
  };

  // Whether this thread is inside the source. There, a hook of another library may allocate: such
  // an allocation must not wait for other threads, and must take no more memory than it needs.
  static bool this_thread_is_inside() { return this_thread_is_inside_; }
  bool anybody_grows() const { return growing_ > 0; }
  bool anybody_calls() const { return growing_ > 0 || releasing_ > 0; }

  // Waits until done() returns true. Calls done() at first, and again whenever a call to the source
  // has ended. Waits no longer than kPatience: the other thread is inside the driver, where a hook
  // of another library may make that thread wait for a lock that this thread holds. Returns the
  // last result of done().
  template <typename Done>
  bool wait(Locked& lock, Done done) {
    return ended_.wait_for(lock, kPatience, done);
  }

 private:
  static constexpr std::chrono::seconds kPatience{2};
  static constinit thread_local bool this_thread_is_inside_;

  std::condition_variable_any ended_;
  int growing_ = 0;    // threads inside without_lock()
  int releasing_ = 0;  // threads that give back
};

inline constinit thread_local bool SourceCalls::this_thread_is_inside_ = false;

}  // namespace cubfc::arena
