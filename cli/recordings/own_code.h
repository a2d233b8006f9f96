// Which frame of a stack is the line that a user wants to know of: of the program's own code, and
// not of the framework that it is written with. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// The outermost frame of PyTorch's backward pass, which runs on threads of its own, where no Python
// function has called.
Frame frame_of_autograd();

// Frames of Recording::frames, kNone where there is none.
struct OwnLine {
  // The innermost that is of no framework (PyTorch, JAX, CuPy, ...), nor of Python's own library;
  // of native code, of the program itself, else of no library of the system's.
  std::uint32_t frame = kNone;
  // Where that is in an installed package: the innermost that is in none.
  std::uint32_t from = kNone;
};
OwnLine own_line_of(const Recording& recording, const std::vector<std::uint32_t>& stack);

// The frames of a stack that tell most, in its order: Python's, where there are any, without what
// the interpreter and the framework do between them; of PyTorch's backward pass which function's
// gradient it was and the operators; of others all.
std::vector<std::uint32_t> outline_of(const Recording& recording,
                                      const std::vector<std::uint32_t>& stack);

// "train.py:12 (forward)", "libfoo.so+0x1f20", whatever is known of it. kName: short, with the last
// part of paths only, and functions of C++ without what is in brackets.
enum class Path : bool { kWhole, kName };
std::string line_text(const Frame& frame, Path path);
// Its function, as there; or what stands for one that is not known.
std::string function_text(const Frame& frame, Path path);
// The other way round, as in a stack: "forward (/home/me/train.py:12)".
std::string frame_text(const Frame& frame, Path path = Path::kWhole);

// What stands for a line where there is no stack.
inline constexpr std::string_view kNoStack = "(no stack)";
inline constexpr std::string_view kNoStackOfBefore = "(from before the recording: no stack)";

// Of an OwnLine: "model.py:30 (forward), from train.py:57 (step)". Empty for none.
std::string text_of(const Recording& recording, const OwnLine& line, Path path);

}  // namespace cubfc::recordings
