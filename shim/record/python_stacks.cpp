#include "shim/record/python_stacks.h"

#include <array>
#include <utility>

namespace cubfc {
namespace {

struct CapturedOfPython {
  std::size_t frames;
  std::array<std::uint32_t, Stacks::kMostFrames> numbers;
};
constinit thread_local CapturedOfPython captured_of_python{};

}  // namespace

void PythonStacks::capture(const Tell& tell) {
  captured_of_python.frames = 0;
  if (depth_ == 0) {
    return;
  }
  std::string why_none;
  if (const std::optional<Python> python = find_python(tell, why_none)) {
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

// A copy: it may be unloaded, and another one found, while this thread works with it.
std::optional<Python> PythonStacks::find_python(const Tell& tell, std::string& why_none) {
  const auto now = Stacks::LoadedObjects::of_now();
  const std::lock_guard lock(mutex_);
  if (!gave_up_ && !(now == looked_among_)) {
    looked_among_ = now;
    std::optional<Python> found = Python::find(why_none);
    if (found && !python_) {
      tell.python(*found);
    }
    python_ = std::move(found);
  }
  return python_;
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
    if (std::exchange(gave_up_, true)) {
      return;
    }
  }
  tell.unreadable(why);
}

}  // namespace cubfc
