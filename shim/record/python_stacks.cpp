#include "shim/record/python_stacks.h"

#include <array>
#include <utility>

#include "shim/loader/loaded_objects.h"

namespace cubfc {
namespace {

struct CapturedOfPython {
  std::size_t frames;
  std::array<std::uint32_t, Stacks::kMostFrames> numbers;
};
constinit thread_local CapturedOfPython captured_of_python{};

}  // namespace

ObjectRange PythonStacks::python() noexcept {
  if (depth_ == 0) {
    return {};
  }
  const std::uint64_t now = objects_generation();
  const std::lock_guard lock(mutex_);
  if (gave_up_) {
    return {};
  }
  if (now != looked_at_) {
    looked_at_ = now;
    std::optional<Python> seen = Python::seen();
    const bool is_same =
        seen && python_ && seen->code_address() == python_->code_address() && is_begun_;
    if (!is_same) {
      python_ = std::move(seen);
      is_begun_ = false;
    }
  }
  return python_ ? python_->range() : ObjectRange{};
}

void PythonStacks::capture(bool is_in_python, const Tell& tell) {
  captured_of_python.frames = 0;
  if (!is_in_python) {
    return;
  }
  std::string why_none;
  if (const std::optional<Python> python = begun_python(tell, why_none)) {
    const PythonFrames frames = python->read(depth_);
    if (frames.problem == PythonFrames::Problem::kNone) {
      give_numbers(*python, frames, tell);
    } else {
      why_none = frames.problem == PythonFrames::Problem::kForbidden
                     ? "this process may not call process_vm_readv"
                     : "Python " + python->version() + " is built in a way that is not known";
    }
  }
  if (!why_none.empty()) {
    give_up(why_none, tell);
  }
}

std::span<const std::uint32_t> PythonStacks::take() noexcept {
  return {captured_of_python.numbers.data(), std::exchange(captured_of_python.frames, 0)};
}

// Python with its frames ready to be read; nothing if they cannot be, and `why_none` says why. A
// copy, because python_ may be replaced while this thread works with it.
std::optional<Python> PythonStacks::begun_python(const Tell& tell, std::string& why_none) {
  const std::lock_guard lock(mutex_);
  if (python_ && !is_begun_) {
    is_begun_ = python_->begin(why_none);
    if (is_begun_) {
      tell.python(*python_);
    }
  }
  return is_begun_ ? python_ : std::nullopt;
}

void PythonStacks::give_numbers(const Python& python, const PythonFrames& frames,
                                const Tell& tell) {
  const std::lock_guard lock(mutex_);
  for (const PythonFrames::Frame& frame : frames.all) {
    const auto known = numbers_.find(frame.identity);
    std::uint32_t number = known == numbers_.end() ? 0 : known->second;
    if (number == 0 && numbers_.size() < kMostNumbers) {
      number = static_cast<std::uint32_t>(numbers_.size() + 1);
      numbers_.emplace(frame.identity, number);
      tell.frame(number, python.text_of(frames, frame));
    }
    captured_of_python.numbers[captured_of_python.frames++] = number;
  }
}

void PythonStacks::give_up(const std::string& why, const Tell& tell) {
  {
    const std::lock_guard lock(mutex_);
    python_.reset();
    is_begun_ = false;
    if (std::exchange(gave_up_, true)) {
      return;
    }
  }
  tell.unreadable(why);
}

}  // namespace cubfc
