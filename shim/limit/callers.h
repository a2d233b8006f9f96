// Which shared object of the program asks for device memory: the one that the call's return address
// lies in. Finding that object takes no stack walk, and mostly only a few instructions.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "arena/figures.h"
#include "shim/tell/figures.h"

namespace cubfc {

class TraceRecorder;

// There is one for the process. Thread-safe. Must not take the dynamic loader's locks: a thread
// that holds one of them may be waiting for the mutex here.
class Callers {
 public:
  // Writes the names of the objects to `process`, which must outlive this. `told`: whether the user
  // wants the objects told apart; if not, each has number 0. `trace`: nullptr if nothing is
  // recorded.
  Callers(figures::ProcessFigures& process, TraceRecorder* trace, bool told) noexcept;

  // The number of the object that this return address lies in; 0 if it is not known.
  arena::Caller find(const void* return_address) {
    const auto address = reinterpret_cast<std::uintptr_t>(return_address);
    const std::uint64_t known = known_[slot_of(address)].load(std::memory_order_relaxed);
    return known >> 8 == address ? static_cast<arena::Caller>(known) : look_up(address);
  }
  // The number of the object that made the call that this thread is in (begin_asking()); else 0.
  arena::Caller asking() { return asking_ == nullptr ? 0 : find(asking_); }

  // A hook calls begin_asking() with the return address of the program's call, and end_asking()
  // with the answer of begin_asking() when that call is over. All that the thread allocates in
  // between counts for the object that made that call, also what the CUDA runtime allocates in it.
  // Of nested calls only the outermost counts.
  static bool begin_asking(const void* return_address) noexcept {
    const bool is_first = asking_ == nullptr;
    asking_ = is_first ? return_address : asking_;
    return is_first;
  }
  static void end_asking(bool was_first) noexcept { asking_ = was_first ? nullptr : asking_; }
  // The return address that begin_asking() got for the call that this thread is in; else this one.
  static const void* asking_or(const void* return_address) noexcept {
    return asking_ == nullptr ? return_address : asking_;
  }
  // begin_asking() and end_asking() as a scope, in which the thread must not be cancelled.
  class Asking {
   public:
    explicit Asking(const void* return_address) noexcept : first_(begin_asking(return_address)) {}
    ~Asking() { end_asking(first_); }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

   private:
    const bool first_;
  };

 private:
  static constexpr std::size_t kSlots = 256;
  static std::size_t slot_of(std::uintptr_t address) { return address / 2 % kSlots; }
  arena::Caller look_up(std::uintptr_t address);
  std::optional<arena::Caller> find_object(std::uintptr_t address);
  arena::Caller number_of(const std::string& name);

  static inline constinit thread_local const void* asking_ = nullptr;

  figures::ProcessFigures& process_;
  TraceRecorder* const trace_;
  const bool told_;
  // The cache of find(): return addresses, each with its object's number in the lowest eight bits.
  std::array<std::atomic<std::uint64_t>, kSlots> known_{};

  std::mutex mutex_;  // guards what follows; nothing else is locked under it
  struct Object {
    std::uintptr_t start;
    std::uintptr_t end;
    arena::Caller number;
  };
  std::vector<Object> objects_;  // the code from which memory was asked for
};

}  // namespace cubfc
