#include "shim/record/python_layout.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace cubfc {
namespace {

using Instruction = PythonLayout::Instruction;
using Lines = PythonLayout::Lines;

constexpr PythonLayout of_3_9() {
  PythonLayout layout;
  layout.thread_frame = 24;
  layout.frame_bytes = 112;
  layout.frame_code = 32;
  layout.frame_previous = 24;
  layout.frame_instruction = 104;
  layout.instruction = Instruction::kByteIndex;
  layout.code_bytes = 128;
  layout.code_first_line = 40;
  layout.code_file = 104;
  layout.code_name = 112;
  layout.code_lines = 120;
  layout.lines = Lines::kLnotab;
  layout.ascii_header_bytes = 48;
  layout.compact_header_bytes = 72;
  return layout;
}

constexpr PythonLayout of_3_10() {
  PythonLayout layout = of_3_9();
  layout.frame_instruction = 96;
  layout.instruction = Instruction::kUnitIndex;
  layout.lines = Lines::kDeltas;
  return layout;
}

constexpr PythonLayout of_3_11() {
  PythonLayout layout;
  layout.thread_frame = 56;
  layout.cframe_frame = 8;
  layout.frame_bytes = 72;
  layout.frame_code = 32;
  layout.frame_previous = 48;
  layout.frame_instruction = 56;
  layout.code_bytes = 144;
  layout.code_first_line = 72;
  layout.code_file = 112;
  layout.code_name = 128;  // the qualified one
  layout.code_lines = 136;
  layout.code_instructions = 184;
  layout.ascii_header_bytes = 48;
  layout.compact_header_bytes = 72;
  return layout;
}

constexpr PythonLayout of_3_12() {
  PythonLayout layout = of_3_11();
  layout.cframe_frame = 0;
  layout.frame_code = 0;
  layout.frame_previous = 8;
  layout.frame_owner = 70;
  layout.code_first_line = 68;
  layout.code_instructions = 192;
  layout.ascii_header_bytes = 40;
  layout.compact_header_bytes = 56;
  return layout;
}

// Where a version's _Py_DebugOffsets has what is needed here: indices of words.
struct DebugOffsets {
  std::size_t current_frame;  // in the thread
  std::size_t previous;       // of the frame; then executable, instr_ptr, localsplus, owner
  std::size_t code_size;      // of the code; then filename, name, qualname, linetable, firstlineno
  std::size_t instructions;   // of the code
};
constexpr std::size_t kVersionWord = 1;
constexpr std::size_t kFreeThreadedWord = 2;
// The indices follow from the sizes of the table's parts, in words: header 3, runtime 3,
// interpreter 13 (from 3.14 on 16), thread 9 (from 3.15 on 16), exceptions 0 (from 3.15 on 1),
// frame 6 (from 3.14 on 8), code 10. By minor version, from 13 on.
constexpr std::array<DebugOffsets, 3> kDebugOffsets{
    {{23, 29, 34, 43}, {26, 32, 39, 48}, {26, 40, 47, 56}}};
constexpr unsigned kFirstMinor = 13;

// Whether a version, as PY_VERSION_HEX has it, is of this minor version, and a release candidate or
// later: before that, its offsets may have been others.
bool is_final(std::uint64_t version, unsigned minor) {
  constexpr std::uint64_t kCandidate = 0xc;
  return version >> 16 == minor + 0x300 && (version >> 4 & 0xf) >= kCandidate;
}

// No version's thread state is longer: a higher number is no offset.
constexpr std::uint64_t kMostOfThread = 64 * 1024;

std::optional<PythonLayout> of_debug_offsets(const DebugOffsets& at,
                                             std::span<const std::uint64_t> words) {
  PythonLayout layout = of_3_12();
  layout.cframe_frame.reset();
  layout.thread_frame = words[at.current_frame];
  layout.frame_previous = words[at.previous];
  layout.frame_code = words[at.previous + 1];
  layout.frame_instruction = words[at.previous + 2];
  layout.frame_owner = words[at.previous + 4];
  layout.code_file = words[at.code_size + 1];
  layout.code_name = words[at.code_size + 3];
  layout.code_lines = words[at.code_size + 4];
  layout.code_first_line = words[at.code_size + 5];
  layout.code_instructions = words[at.instructions];
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const std::size_t last_of_frame = std::max(
      {layout.frame_previous, layout.frame_code, layout.frame_instruction, *layout.frame_owner});
  const std::size_t last_of_code =
      std::max({layout.code_file, layout.code_name, layout.code_lines, layout.code_first_line});
  layout.frame_bytes = last_of_frame + kWord;
  layout.code_bytes = last_of_code + kWord;
  const bool is_sound =
      layout.thread_frame <= kMostOfThread &&
      std::max({last_of_frame, last_of_code, layout.code_instructions}) <= kMostPythonBytes - kWord;
  return is_sound ? std::optional(layout) : std::nullopt;
}

}  // namespace

std::optional<PythonLayout> python_layout_of(const std::string& version,
                                             std::span<const std::uint64_t> runtime,
                                             std::string& why) {
  unsigned major = 0;
  unsigned minor = 0;
  std::sscanf(version.c_str(), "%u.%u", &major, &minor);
  const std::string name = "Python " + version.substr(0, version.find(' '));
  if (version.find("free-threading") != std::string::npos) {
    why = name + " is a free-threaded build, whose frames are not read";
    return std::nullopt;
  }
  if (major == 3 && minor >= 9 && minor <= 12) {
    constexpr std::array kTables{of_3_9(), of_3_10(), of_3_11(), of_3_12()};
    return kTables[minor - 9];
  }
  if (major == 3 && minor >= kFirstMinor && minor - kFirstMinor < kDebugOffsets.size() &&
      runtime.size() >= kPythonRuntimeWords && std::memcmp(runtime.data(), "xdebugpy", 8) == 0 &&
      is_final(runtime[kVersionWord], minor) && runtime[kFreeThreadedWord] == 0) {
    if (auto layout = of_debug_offsets(kDebugOffsets.at(minor - kFirstMinor), runtime)) {
      return layout;
    }
  }
  why = name + " is not known (CPython 3.9 to 3.15 are)";
  return std::nullopt;
}

}  // namespace cubfc
