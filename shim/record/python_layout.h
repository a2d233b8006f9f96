// Where CPython keeps what a thread is doing: which versions are known, and their offsets in bytes.
// 3.9 to 3.12 by tables, as their headers have it (Include/cpython/frameobject.h, Include/internal/
// pycore_frame.h, cpython/code.h); from 3.13 on by what each interpreter says of itself
// (_Py_DebugOffsets, the first thing in _PyRuntime). Only for 64-bit processors. Nothing is read
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace cubfc {

struct PythonLayout {
  // Of PyThreadState, a pointer: to the innermost frame, or to what has a pointer to it.
  std::size_t thread_frame = 0;
  std::optional<std::size_t> cframe_frame;  // 3.11 and 3.12: of what is between

  // Of a frame. `frame_bytes`: as many as hold all of these.
  std::size_t frame_bytes = 0;
  std::size_t frame_code = 0;      // a pointer; from 3.14 on with marks in its lowest bits
  std::size_t frame_previous = 0;  // a pointer
  std::size_t frame_instruction = 0;
  enum class Instruction : std::uint8_t { kByteIndex, kUnitIndex, kPointer };
  Instruction instruction = Instruction::kPointer;
  std::optional<std::size_t> frame_owner;  // a byte; see kFirstOwnerOfNone

  // Of a code object.
  std::size_t code_bytes = 0;  // as many as hold all of these
  std::size_t code_first_line = 0;
  std::size_t code_file = 0;
  std::size_t code_name = 0;
  std::size_t code_lines = 0;         // a bytes object
  std::size_t code_instructions = 0;  // where they begin; for Instruction::kPointer
  enum class Lines : std::uint8_t { kLnotab, kDeltas, kLocations };
  Lines lines = Lines::kLocations;  // Objects/lnotab_notes.txt, and locations.md since 3.11

  // Of strings (PyASCIIObject, PyCompactUnicodeObject): how much stands before the characters.
  std::size_t ascii_header_bytes = 0;
  std::size_t compact_header_bytes = 0;
};

// From this owner on a frame is the interpreter's own (FRAME_OWNED_BY_CSTACK and what came later).
inline constexpr std::uint8_t kFirstOwnerOfNone = 3;

// What is the same in all of them: PyObject and PyVarObject, and strings' state.
inline constexpr std::size_t kPythonType = 8;
inline constexpr std::size_t kPythonSize = 16;
inline constexpr std::size_t kPythonBytesHeader = 32;
inline constexpr std::size_t kPythonStringState = 32;

// No frame and no code object is longer, as far as it is read.
inline constexpr std::size_t kMostPythonBytes = 512;

// Of the version that Py_GetVersion() tells ("3.12.1 (main, ...) [GCC ...]"). `runtime`: the first
// words of _PyRuntime. Nothing for what is not known; `why` says what it is then, for people.
std::optional<PythonLayout> python_layout_of(const std::string& version,
                                             std::span<const std::uint64_t> runtime,
                                             std::string& why);
// As many words of _PyRuntime are looked at.
inline constexpr std::size_t kPythonRuntimeWords = 64;

}  // namespace cubfc
