// The Python frames of allocations that are recorded, beside the native ones (stacks.h). They are
// captured before the arena's lock is taken, and recorded under it. The text of each frame is
// recorded once, with a number, and stacks have the numbers. An address would not do as the number:
// Python may free a code object, and make another at the same address.
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
  // `depth`: the most frames of a stack; 0: none are captured.
  explicit PythonStacks(std::uint32_t depth)
      : depth_(depth < Stacks::kMostFrames ? depth : std::uint32_t{Stacks::kMostFrames}) {}

  // Called to record what was found. `python` and `frame` are called under this object's lock, so a
  // frame is recorded before any stack in which its number stands. `unreadable` is called at most
  // once, where nothing is locked.
  struct Tell {
    std::function<void(const Python& python)> python;  // whose frames are read from now on
    std::function<void(std::uint32_t number, const Python::Text& text)> frame;
    std::function<void(const std::string& why)> unreadable;  // no frames are read from now on
  };
  // Where the loaded Python lies; nowhere if there is none, or its frames cannot be read.
  ObjectRange python() noexcept;
  // Captures the calling thread's Python frames, for take(). None if the thread is not in Python.
  // Throws std::bad_alloc.
  void capture(bool is_in_python, const Tell& tell);
  // The numbers of the frames that the calling thread has captured last, the innermost first; empty
  // if they were taken before. Valid until the thread captures again.
  static std::span<const std::uint32_t> take() noexcept;

 private:
  std::optional<Python> begun_python(const Tell& tell, std::string& why_none);
  void give_numbers(const Python& python, const PythonFrames& frames, const Tell& tell);
  void give_up(const std::string& why, const Tell& tell);

  // The most frames that get a number; all later ones have the number 0.
  static constexpr std::size_t kMostNumbers = 1U << 20U;

  const std::uint32_t depth_;
  std::mutex mutex_;  // guards what follows
  std::optional<Python> python_;
  bool is_begun_ = false;  // whether python_->begin() has succeeded
  bool gave_up_ = false;
  std::uint64_t looked_at_ = 0;                               // objects_generation() then
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // by a frame's identity
};

}  // namespace cubfc
