// Who asks for device memory: the shared object that a call returns to. Found without a stack, and
// mostly in a few instructions.
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

// One for the process. Thread-safe; takes none of the loader's locks, which a thread may hold that
// waits for this one.
class Callers {
 public:
  // Their names go to `process`, which must outlive it. `told`: the user wants them told apart.
  // `trace`: nullptr if nothing is recorded.
  Callers(figures::ProcessFigures& process, TraceRecorder* trace, bool told) noexcept;

  // The number of the object that this return address lies in; 0 if it is not known.
  arena::Caller find(const void* return_address) {
    const auto address = reinterpret_cast<std::uintptr_t>(return_address);
    const std::uint64_t known = known_[slot_of(address)].load(std::memory_order_relaxed);
    return known >> 8 == address ? static_cast<arena::Caller>(known) : look_up(address);
  }
  // Of the call that this thread is in, see Asking.
  arena::Caller asking() { return asking_ == nullptr ? 0 : find(asking_); }

  // From begin_asking() until end_asking(), which gets its answer, this thread is in a call of the
  // program's that returns to that address: what calls are made inside are on its account.
  static bool begin_asking(const void* return_address) noexcept {
    const bool is_first = asking_ == nullptr;
    asking_ = is_first ? return_address : asking_;
    return is_first;
  }
  static void end_asking(bool was_first) noexcept { asking_ = was_first ? nullptr : asking_; }
  // The same as an object, for where a thread cannot be cancelled meanwhile.
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
  // Return addresses, each with its object's number in the lowest eight bits.
  std::array<std::atomic<std::uint64_t>, kSlots> known_{};

  std::mutex mutex_;  // guards what follows; nothing else is locked under it
  struct Object {
    std::uintptr_t start;
    std::uintptr_t end;
    arena::Caller number;
  };
  std::vector<Object> objects_;  // code that somebody has called from
};

}  // namespace cubfc
