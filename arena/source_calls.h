// The threads of an arena that are calling its source, for which they let go of the arena's lock,
// and those that wait until they are back.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "arena/lock.h"

namespace cubfc::arena {

using Locked = std::unique_lock<Lock>;

// Used with the arena's lock held, but for this_thread_is_inside().
class SourceCalls {
 public:
  // Returns what `call` returns, which is made without the lock. Who must grow, too, waits for it.
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

  // As long as this lives, memory is being given back, whether the lock is held or not.
  class Release {
   public:
    explicit Release(SourceCalls& calls) : calls_(calls) { ++calls_.releasing_; }
    Release(const Release&) = delete;
    Release& operator=(const Release&) = delete;
    ~Release() {
      --calls_.releasing_;
      calls_.ended_.notify_all();
    }

   private:
    SourceCalls& calls_;
  };

  // Inside the source a hook of somebody else's may allocate: such an allocation waits for nobody,
  // and takes no more than it needs.
  static bool this_thread_is_inside() { return this_thread_is_inside_; }
  bool anybody_grows() const { return growing_ > 0; }
  bool anybody_calls() const { return growing_ > 0 || releasing_ > 0; }

  // Waits until `done`, which is asked at first and whenever a call has ended. Not for ever: the
  // other thread is inside the driver, where a hook of somebody else's may make it wait for a lock
  // that this thread holds. Returns what `done` says at last.
  template <typename Done>
  bool wait(Locked& lock, Done done) {
    return ended_.wait_for(lock, kPatience, done);
  }

 private:
  static constexpr std::chrono::seconds kPatience{2};
  static constinit thread_local bool this_thread_is_inside_;

  std::condition_variable_any ended_;
  int growing_ = 0;    // threads that ask for memory
  int releasing_ = 0;  // threads that give back
};

inline constinit thread_local bool SourceCalls::this_thread_is_inside_ = false;

}  // namespace cubfc::arena
