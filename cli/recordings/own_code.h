// Finds the frame of a stack that a user wants to know of: a line of the program's own code, and
// not of the framework that the program uses. Writes frames as text. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// The outermost frame of a stack in PyTorch's backward pass. It stands for a thread of the pass,
// because no Python function is on the stack of such a thread.
Frame frame_of_autograd();

// Indices into Recording::frames; kNone where there is no such frame.
struct OwnLine {
  // In a stack with Python frames: the innermost Python frame that is neither in a framework
  // (PyTorch, JAX, CuPy, ...) nor in Python's own library. If there is none, the innermost Python
  // frame. In a stack without Python frames, the first of these that there is: the frame of
  // autograd; the innermost frame in the program's own object; the innermost frame in an object
  // that is no system library; the innermost frame.
  std::uint32_t frame = kNone;
  // If `frame` is in an installed package: the innermost Python frame that is in none.
  std::uint32_t from = kNone;
};
OwnLine own_line_of(const Recording& recording, const std::vector<std::uint32_t>& stack);

// The frames of a stack that tell most, in the stack's order. If there are Python frames: these
// alone. In PyTorch's backward pass: the frame of autograd, the functions whose gradient is
// computed, and the operators. In any other stack: all.
std::vector<std::uint32_t> outline_of(const Recording& recording,
                                      const std::vector<std::uint32_t>& stack);

// A frame as text, from what is known of it: "train.py:12 (forward)", "libfoo.so+0x1f20". kName:
// with only the last part of each path, and C++ functions without parameters and template
// arguments.
enum class Path : bool { kWhole, kName };
std::string line_text(const Frame& frame, Path path);
// Only the frame's function, as line_text() has it. If it is not known, the frame's place or
// address.
std::string function_text(const Frame& frame, Path path);
// As line_text(), with the function first: "forward (/home/me/train.py:12)".
std::string frame_text(const Frame& frame, Path path = Path::kWhole);

// These stand for a line where there is no stack.
inline constexpr std::string_view kNoStack = "(no stack)";
inline constexpr std::string_view kNoStackOfBefore = "(from before the recording: no stack)";

// An OwnLine as text: "model.py:30 (forward), from train.py:57 (step)". Empty without a frame.
std::string text_of(const Recording& recording, const OwnLine& line, Path path);

}  // namespace cubfc::recordings
