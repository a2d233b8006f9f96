// Takes the memory of an idle program away and brings it back (CUBFC_SLEEP, under
// CUBFC_ALLOCATOR=vmm). sleep(): the bytes of all live blocks go to the host, the pages in which
// they lie are unmapped, and their memory goes back to the devices and to the limit. The addresses
// stay reserved. wake(): the same bytes come back to the same addresses. The program's calls that
// need the memory come through gates (gates.h). While the program sleeps the gates are stopped, and
// such a call first wakes the program.
//
// Whatever fails, the program is then awake and has its bytes, or asleep with all of them on the
// host, and the same can be tried again.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "arena/units.h"
#include "config/policy.h"
#include "shim/device/context_end.h"
#include "shim/driver/driver.h"
#include "shim/loader/fork_mark.h"
#include "shim/sleep/copy_buffer.h"
#include "shim/sleep/gates.h"
#include "shim/sleep/host_store.h"
#include "shim/sleep/part.h"

namespace cubfc {

class Captures;
class Contexts;
class MemorySources;
class UnusedMemory;
class WaitingFrees;

// Thread-safe. Lives as long as the process.
class Sleeper : private gates::Keeper, private ContextListener {
 public:
  struct Parts {
    Contexts& contexts;
    Captures& captures;
    WaitingFrees& waiting;
    UnusedMemory& unused;
    const MemorySources& sources;
  };
  // `is_wanted`: Process::can_sleep().
  Sleeper(const DriverFunctions& driver, const config::Policy& policy, bool is_wanted, Parts parts);

  // Whether the program was started so that it can sleep.
  bool is_wanted() const noexcept { return is_wanted_; }
  bool is_asleep() const noexcept { return state_.load() == State::kAsleep; }

  // What has come of sleep() or wake(). `text`: one line for the user, which says why not, if it is
  // not done.
  struct Outcome {
    bool is_done = false;
    std::string text = {};
  };
  // Precondition of both: the calling thread is in no call of the driver's. Each waits for another
  // thread's sleep() or wake() to end. sleep() gives up if the program calls anything that needs
  // its memory before the memory is away.
  Outcome sleep() noexcept;
  Outcome wake() noexcept;

  // Whether the program has made any call that needs its memory since this was asked last.
  bool was_called() noexcept;

  // Called when the process ends: a sleep() that is under way gives up.
  void process_ends() noexcept { process_ends_.store(true); }

  // Called when a graph has been instantiated that kernels can launch: work may then begin by
  // itself at any time.
  void device_can_launch() noexcept { device_launches_.store(true); }

 private:
  // kFalling: sleep() is under way. kWaking: bring_back() is, for wake() or for a call at a gate.
  enum class State : std::uint8_t { kAwake, kFalling, kAsleep, kWaking };

  // Addresses in an arena that other processes, devices or adapters may reach.
  struct HandedOut {
    std::uint64_t context_id;
    arena::Address begin;
    arena::Address end;
    auto operator<=>(const HandedOut&) const = default;
  };

  CUresult at_gate(const gates::Call& call) override;
  void context_ended(std::uint64_t id) override;
  bool only_asks_of_others(const gates::Call& call) const noexcept;
  void note_handed_out(const gates::Call& call) noexcept;

  bool begin(State from, State to) noexcept;
  void end(State state) noexcept;

  std::string why_not_at_all() const;

  std::string text_of_sleep() const;

  // In fall_asleep.cpp.
  std::string fall_asleep();
  std::string why_not_now() const;
  std::string wait_until_idle(std::chrono::steady_clock::time_point until);
  std::string stop_program(std::chrono::steady_clock::time_point until);
  bool is_idle() const;
  bool gives_up() const noexcept { return stopped_calls_.load() > 0 || process_ends_.load(); }
  std::string why_given_up() const;
  std::uint64_t bytes_in_use() const;
  std::string hold_pages();
  std::vector<HandedOut> handed_out_of(const SleepingPart& part);
  std::uint64_t plan();
  std::string copy_out();
  CUresult copy_out(const SleepingPage& page, char*& buffer);
  void take_away() noexcept;

  // In bring_back.cpp.
  CUresult bring_back() noexcept;
  template <typename Do>
  CUresult in_context(SleepingPart& part, Do what);
  void give_up_what_is_free();
  CUresult get_memory(SleepingPart& part);
  CUresult put_back(SleepingPart& part);
  CUresult copy_in(const SleepingPage& page, char*& buffer);

  static void tell_awake(std::uint64_t bytes, std::chrono::steady_clock::duration time) noexcept;
  void forget_ended();
  void tell_away() noexcept;
  void tell_away(SleepingPart& part, std::uint64_t bytes) noexcept;
  void let_pages_go() noexcept;

  const DriverFunctions& driver_;
  const Parts its_;
  const bool is_wanted_;
  const std::string folder_;  // for the store; empty: memory
  const ForkMark mark_;

  std::mutex mutex_;  // guards changes of state_, and handed_out_
  std::condition_variable changed_;
  std::atomic<State> state_{State::kAwake};
  std::atomic<int> stopped_calls_{0};                   // calls at gates that wait for the memory
  std::atomic<const char*> stopped_function_{nullptr};  // what one of them calls; a literal
  std::atomic<bool> was_called_{false};
  std::atomic<bool> process_ends_{false};
  std::atomic<bool> device_launches_{false};
  std::atomic<bool> hands_out_frames_{false};
  std::set<HandedOut> handed_out_;

  // Used by the thread that moves memory (begin()), and kept while the program sleeps. If a context
  // ends meanwhile, context_ended() takes its part out, under the lock.
  std::vector<SleepingPart> parts_;
  HostStore store_;
  CopyBuffer buffer_;
  std::uint64_t page_bytes_ = 0;  // of the largest pages among those of `parts_`
  std::atomic<std::uint64_t> bytes_away_{0};
  std::atomic<std::uint64_t> bytes_kept_{0};  // on the host, since the program fell asleep
  bool has_told_failure_ = false;             // of a wake, since the program fell asleep
};

}  // namespace cubfc
