// The Python frames of allocations that are recorded, beside the native ones (stacks.h): captured
// before the arena's lock is taken, written down under it. Each frame is told of once, by its text,
// and has a number from then on: code objects are freed, and others lie at their addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>

#include "shim/record/python_frames.h"
#include "shim/record/stacks.h"

namespace cubfc {

// Thread-safe.
class PythonStacks {
 public:
  // `depth`: frames of each stack, at most; 0: none are captured.
  explicit PythonStacks(std::uint32_t depth)
      : depth_(depth < Stacks::kMostFrames ? depth : std::uint32_t{Stacks::kMostFrames}) {}

  // Who writes it down. The first two are called under a lock of this object's, before anybody
  // takes the number that they are of; the last one, at most once, where nothing is locked.
  struct Tell {
    std::function<void(const Python& python)> python;  // is read from here on
    std::function<void(std::uint32_t number, const Python::Text& text)> frame;
    std::function<void(const std::string& why)> unreadable;  // there are none from here on
  };
  // Where Python lies, of those that are loaded now; nowhere where there is none to be read.
  ObjectRange python() noexcept;
  // Captures the calling thread's, for take(); none where it is not in Python. Throws
  // std::bad_alloc.
  void capture(bool is_in_python, const Tell& tell);
  // The numbers of what the calling thread has captured last, the innermost first; empty when that
  // was taken before. Valid until the thread captures again.
  static std::span<const std::uint32_t> take() noexcept;

 private:
  std::optional<Python> begun_python(const Tell& tell, std::string& why_none);
  void give_numbers(const Python& python, const PythonFrames& frames, const Tell& tell);
  void give_up(const std::string& why, const Tell& tell);

  // So many different frames are told of; those that come later have the number 0.
  static constexpr std::size_t kMostNumbers = 1U << 20U;

  const std::uint32_t depth_;
  std::mutex mutex_;  // guards what follows
  std::optional<Python> python_;
  bool is_begun_ = false;  // of python_
  bool gave_up_ = false;
  std::uint64_t looked_at_ = 0;                               // objects_generation() then
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // by a frame's identity
};

}  // namespace cubfc
