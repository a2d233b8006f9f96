#include "shim/record/python_frames.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "shim/record/own_memory.h"
#include "shim/record/python_lines.h"

namespace cubfc {
namespace {

using Problem = PythonFrames::Problem;
using Instruction = PythonLayout::Instruction;

// The most that is read. Of a longer file's name the last characters are read, of a longer
// function's name the first. Of a longer table of lines the first bytes are read.
constexpr std::uint64_t kMostCharacters = 1024;
constexpr std::uint64_t kMostOfLines = 64 * 1024;
constexpr std::uint64_t kMarksOfPointer = 7;
// The most frames that are looked at: the interpreter's own are passed over, but not for ever.
constexpr std::size_t kMostPassedOver = 1024;

template <typename T>
T at(const char* bytes, std::size_t offset) noexcept {
  T value;
  std::memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(hash ^ word) * 0x9e3779b97f4a7c15ULL;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

std::uint64_t mixed(std::uint64_t hash, std::string_view text) noexcept {
  hash = mixed(hash, text.size() + 1);
  while (!text.empty()) {
    std::uint64_t word = 0;
    const std::size_t bytes = std::min(text.size(), sizeof(word));
    std::memcpy(&word, text.data(), bytes);
    hash = mixed(hash, word);
    text.remove_prefix(bytes);
  }
  return hash;
}

// Reads the bits of PyASCIIObject::state. The versions differ in how many bits `interned` has,
// which come first. With a wrong number of them the other bits make no possible state.
struct StringState {
  std::uint8_t kind;
  bool is_ascii;
};
std::optional<StringState> state_of_string(std::uint32_t bits) noexcept {
  for (const unsigned interned_bits : {2U, 8U, 16U}) {
    const std::uint32_t rest = bits >> interned_bits;
    const auto kind = static_cast<std::uint8_t>(rest & 7U);
    const bool is_compact = (rest & 8U) != 0;
    const bool is_ascii = (rest & 16U) != 0;
    if ((kind == 1 || kind == 2 || kind == 4) && is_compact && (!is_ascii || kind == 1)) {
      return StringState{kind, is_ascii};
    }
  }
  return std::nullopt;
}

void add_utf8(std::uint32_t code, std::string& text) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6U);
    add(0x80 | (code & 63U));
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12U);
    add(0x80 | (code >> 6U & 63U));
    add(0x80 | (code & 63U));
  } else {
    add(0xf0 | (code >> 18U & 7U));
    add(0x80 | (code >> 12U & 63U));
    add(0x80 | (code >> 6U & 63U));
    add(0x80 | (code & 63U));
  }
}

std::string_view raw(const PythonFrames& frames, const PythonFrames::Piece& piece) noexcept {
  return {frames.bytes.data() + piece.start, piece.length};
}

std::string utf8_of(const PythonFrames& frames, const PythonFrames::Piece& piece) {
  const std::string_view bytes = raw(frames, piece);
  if (piece.character_bytes == 1 && !piece.is_latin_1) {
    return std::string(bytes);
  }
  std::string text;
  for (std::size_t i = 0; i + piece.character_bytes <= bytes.size(); i += piece.character_bytes) {
    std::uint32_t code = 0;
    std::memcpy(&code, bytes.data() + i, piece.character_bytes);
    add_utf8(code, text);
  }
  return text;
}

}  // namespace

std::optional<Python> Python::seen() noexcept {
  constexpr std::array kNames{"PyGILState_GetThisThreadState",
                              "Py_GetVersion",
                              "_PyRuntime",
                              "PyCode_Type",
                              "PyUnicode_Type",
                              "PyBytes_Type"};
  std::array<void*, kNames.size()> found{};
  std::optional<Python> python;
  if (sizeof(void*) == 8) {
    if (const ObjectRange range = find_exported_together(kNames, found); range.end != 0) {
      python.emplace();
      python->range_ = range;
      python->thread_state_ = reinterpret_cast<void* (*)()>(found[0]);
      python->get_version_ = reinterpret_cast<const char* (*)()>(found[1]);
      python->runtime_ = reinterpret_cast<std::uintptr_t>(found[2]);
      python->code_type_ = reinterpret_cast<std::uintptr_t>(found[3]);
      python->string_type_ = reinterpret_cast<std::uintptr_t>(found[4]);
      python->bytes_type_ = reinterpret_cast<std::uintptr_t>(found[5]);
    }
  }
  return python;
}

bool Python::begin(std::string& why) {
  const std::string version = get_version_();
  std::array<std::uint64_t, kPythonRuntimeWords> runtime{};
  OwnMemory().read(runtime_, runtime);
  const std::optional<PythonLayout> layout = python_layout_of(version, runtime, why);
  if (!layout) {
    return false;
  }
  layout_ = *layout;
  version_ = version.substr(0, version.find(' '));
  for (const char* const name : {"_Py_IsFinalizing", "Py_IsFinalizing"}) {  // since 3.13
    const std::array<const char*, 2> names{"PyGILState_GetThisThreadState", name};
    std::array<void*, names.size()> functions{};
    if (find_exported_together(names, functions).contains(code_address())) {
      is_finalizing_ = reinterpret_cast<int (*)()>(functions[1]);
    }
  }
  return true;
}

PythonFrames Python::read(std::size_t most) const {
  PythonFrames frames;
  OwnMemory memory;
  if (is_finalizing_ != nullptr && is_finalizing_() != 0) {
    return frames;  // the states of threads that still run are freed by now
  }
  const std::optional<std::vector<Place>> places = places_of_thread(most, memory);
  std::vector<char> codes;
  if (places && read_codes(*places, memory, codes, frames) && read_text(codes, memory, frames)) {
    return frames;
  }
  frames.all.clear();
  if (is_finalizing_ == nullptr || is_finalizing_() == 0) {  // else Python has begun to end
    frames.problem = memory.is_forbidden() ? Problem::kForbidden : Problem::kNoPython;
  }
  return frames;
}

// Where each frame is, from the innermost out. Nothing if the memory of one is not there.
std::optional<std::vector<Python::Place>> Python::places_of_thread(std::size_t most,
                                                                   OwnMemory& memory) const {
  std::vector<Place> places;
  const auto thread = reinterpret_cast<std::uintptr_t>(thread_state_());
  std::uintptr_t frame = 0;
  if (thread == 0) {
    return places;
  }
  if (!memory.read(thread + layout_.thread_frame, frame) ||
      (layout_.cframe_frame && frame != 0 && !memory.read(frame + *layout_.cframe_frame, frame))) {
    return std::nullopt;
  }
  std::array<char, kMostPythonBytes> bytes{};
  for (std::size_t n = 0; frame != 0 && places.size() < most && n < kMostPassedOver; ++n) {
    MemoryPiece piece{frame, bytes.data(), layout_.frame_bytes};
    memory.read(std::span(&piece, 1));
    if (!piece.is_read) {
      return std::nullopt;
    }
    const bool is_of_interpreter =
        layout_.frame_owner &&
        at<std::uint8_t>(bytes.data(), *layout_.frame_owner) >= kFirstOwnerOfNone;
    if (!is_of_interpreter) {
      const bool is_index = layout_.instruction != Instruction::kPointer;
      places.push_back({at<std::uintptr_t>(bytes.data(), layout_.frame_code) & ~kMarksOfPointer,
                        is_index ? at<std::int32_t>(bytes.data(), layout_.frame_instruction)
                                 : at<std::int64_t>(bytes.data(), layout_.frame_instruction)});
    }
    frame = at<std::uintptr_t>(bytes.data(), layout_.frame_previous);
  }
  return places;
}

// Reads the code objects, one after the other, and makes the frames, still without text. False if
// one is no code object.
bool Python::read_codes(std::span<const Place> places, OwnMemory& memory, std::vector<char>& codes,
                        PythonFrames& frames) const {
  codes.resize(places.size() * layout_.code_bytes);
  std::vector<MemoryPiece> pieces;
  for (std::size_t i = 0; i < places.size(); ++i) {
    pieces.push_back({places[i].code, codes.data() + i * layout_.code_bytes, layout_.code_bytes});
  }
  memory.read(pieces);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const char* const code = codes.data() + i * layout_.code_bytes;
    if (!pieces[i].is_read || at<std::uintptr_t>(code, kPythonType) != code_type_) {
      return false;
    }
    PythonFrames::Frame& frame = frames.all.emplace_back();
    frame.first_line = at<std::int32_t>(code, layout_.code_first_line);
    switch (layout_.instruction) {
      case Instruction::kByteIndex:
        frame.instruction = places[i].instruction;
        break;
      case Instruction::kUnitIndex:
        frame.instruction = places[i].instruction * 2;
        break;
      case Instruction::kPointer:
        frame.instruction = places[i].instruction -
                            static_cast<std::int64_t>(places[i].code + layout_.code_instructions);
        break;
    }
  }
  return true;
}

// Reads the file, the function and the lines of each frame: first how long they are, then all of
// them. False if one is not of the type that it should be.
bool Python::read_text(const std::vector<char>& codes, OwnMemory& memory,
                       PythonFrames& frames) const {
  struct Head {
    std::array<char, 40> bytes;  // no more than the shortest of these objects has
  };
  constexpr std::size_t kTexts = 3;
  std::vector<Head> heads(frames.all.size() * kTexts);
  std::vector<MemoryPiece> pieces;
  const std::array<std::size_t, kTexts> offsets{layout_.code_file, layout_.code_name,
                                                layout_.code_lines};
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const char* const code = codes.data() + i / kTexts * layout_.code_bytes;
    const bool is_string = i % kTexts != 2;
    pieces.push_back({at<std::uintptr_t>(code, offsets[i % kTexts]), heads[i].bytes.data(),
                      is_string ? sizeof(Head) : kPythonBytesHeader});
  }
  memory.read(pieces);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const char* const head = heads[i].bytes.data();
    PythonFrames::Frame& frame = frames.all[i / kTexts];
    PythonFrames::Piece& piece = i % kTexts == 0   ? frame.file
                                 : i % kTexts == 1 ? frame.function
                                                   : frame.lines;
    const bool is_string = i % kTexts != 2;
    const auto state = state_of_string(at<std::uint32_t>(head, kPythonStringState));
    if (!pieces[i].is_read ||
        at<std::uintptr_t>(head, kPythonType) != (is_string ? string_type_ : bytes_type_) ||
        (is_string && !state)) {
      return false;
    }
    const auto length = at<std::uint64_t>(head, kPythonSize);
    const std::uint64_t used = std::min(length, is_string ? kMostCharacters : kMostOfLines);
    std::size_t before = kPythonBytesHeader;
    if (is_string) {
      piece.character_bytes = state->kind;
      piece.is_latin_1 = state->kind == 1 && !state->is_ascii;
      before = state->is_ascii ? layout_.ascii_header_bytes : layout_.compact_header_bytes;
      before += i % kTexts == 0 ? (length - used) * state->kind : 0;  // of a path, the end is read
    }
    piece.start = bytes;
    piece.length = used * piece.character_bytes;
    pieces[i] = {pieces[i].from + before, nullptr, piece.length};
    bytes += piece.length;
  }
  frames.bytes.resize(bytes);
  for (std::size_t i = 0, start = 0; i < pieces.size(); start += pieces[i++].bytes) {
    pieces[i].to = frames.bytes.data() + start;
  }
  memory.read(pieces);
  if (!std::ranges::all_of(pieces, &MemoryPiece::is_read)) {
    return false;
  }
  for (PythonFrames::Frame& frame : frames.all) {
    std::uint64_t hash = mixed(static_cast<std::uint64_t>(frame.first_line),
                               static_cast<std::uint64_t>(frame.instruction));
    for (const PythonFrames::Piece& piece : {frame.file, frame.function, frame.lines}) {
      hash = mixed(hash, raw(frames, piece));
    }
    frame.identity = hash;
  }
  return true;
}

Python::Text Python::text_of(const PythonFrames& frames, const PythonFrames::Frame& frame) const {
  return {utf8_of(frames, frame.file), utf8_of(frames, frame.function),
          python_line(layout_.lines, raw(frames, frame.lines), frame.lines.length == kMostOfLines,
                      frame.first_line, frame.instruction)};
}

}  // namespace cubfc
