// Where CPython keeps what a thread is doing: which versions are known, and their offsets in bytes.
// For 3.9 to 3.12 there are tables, as in the headers (Include/cpython/frameobject.h,
// Include/internal/pycore_frame.h, cpython/code.h). From 3.13 on each interpreter has its own table
// (_Py_DebugOffsets, which _PyRuntime begins with). Only for 64-bit processors. Reads no memory
// itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace cubfc {

struct PythonLayout {
  // Offset in PyThreadState of a pointer to the innermost frame, or to a _PyCFrame, which has that
  // pointer.
  std::size_t thread_frame = 0;
  std::optional<std::size_t> cframe_frame;  // 3.11 and 3.12: offset in _PyCFrame

  // Offsets in a frame. `frame_bytes`: how many of its bytes hold all that is read.
  std::size_t frame_bytes = 0;
  std::size_t frame_code = 0;      // a pointer; from 3.14 on with marks in its lowest bits
  std::size_t frame_previous = 0;  // a pointer
  std::size_t frame_instruction = 0;
  enum class Instruction : std::uint8_t { kByteIndex, kUnitIndex, kPointer };
  Instruction instruction = Instruction::kPointer;
  std::optional<std::size_t> frame_owner;  // a byte; see kFirstOwnerOfNone

  // Offsets in a code object.
  std::size_t code_bytes = 0;  // how many of its bytes hold all that is read
  std::size_t code_first_line = 0;
  std::size_t code_file = 0;
  std::size_t code_name = 0;
  std::size_t code_lines = 0;         // a bytes object
  std::size_t code_instructions = 0;  // where the instructions begin; for Instruction::kPointer
  enum class Lines : std::uint8_t { kLnotab, kDeltas, kLocations };
  Lines lines = Lines::kLocations;  // Objects/lnotab_notes.txt, and locations.md since 3.11

  // The bytes before the characters of a string (PyASCIIObject, PyCompactUnicodeObject).
  std::size_t ascii_header_bytes = 0;
  std::size_t compact_header_bytes = 0;
};

// A frame with this owner, or a higher one, is the interpreter's own (FRAME_OWNED_BY_CSTACK and
// later ones).
inline constexpr std::uint8_t kFirstOwnerOfNone = 3;

// Offsets that are the same in all versions: in PyObject and PyVarObject, and of strings' state.
inline constexpr std::size_t kPythonType = 8;
inline constexpr std::size_t kPythonSize = 16;
inline constexpr std::size_t kPythonBytesHeader = 32;
inline constexpr std::size_t kPythonStringState = 32;

// The most bytes that are read of a frame or a code object.
inline constexpr std::size_t kMostPythonBytes = 512;

// The layout of the version that Py_GetVersion() tells ("3.12.1 (main, ...) [GCC ...]"). `runtime`:
// the first words of _PyRuntime. Nothing if the layout is not known: `why` then tells people the
// reason.
std::optional<PythonLayout> python_layout_of(const std::string& version,
                                             std::span<const std::uint64_t> runtime,
                                             std::string& why);
// How many words of _PyRuntime are looked at.
inline constexpr std::size_t kPythonRuntimeWords = 64;

}  // namespace cubfc
