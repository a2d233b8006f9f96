#include "shim/record/python_lines.h"

#include <cstddef>

namespace cubfc {
namespace {

class Bytes {
 public:
  explicit Bytes(std::string_view text) : text_(text) {}
  bool is_at_end() const noexcept { return next_ >= text_.size(); }
  std::uint8_t take() noexcept {
    return is_at_end() ? std::uint8_t{0} : static_cast<std::uint8_t>(text_[next_++]);
  }
  std::int32_t take_signed() noexcept { return static_cast<std::int8_t>(take()); }
  // Six bits in each byte, the lowest first; the seventh says that there are more.
  std::uint32_t take_varint() noexcept {
    std::uint32_t value = 0;
    std::uint8_t byte = take();
    value = byte & 63U;
    for (unsigned shift = 6; (byte & 64U) != 0 && shift < 30 && !is_at_end(); shift += 6) {
      byte = take();
      value |= (byte & 63U) << shift;
    }
    return value;
  }
  std::int32_t take_signed_varint() noexcept {
    const std::uint32_t value = take_varint();
    const auto half = static_cast<std::int32_t>(value >> 1U);
    return (value & 1U) != 0 ? -half : half;
  }

 private:
  std::string_view text_;
  std::size_t next_ = 0;
};

// Lines::kLnotab: pairs that say how many bytes of code further, and how many lines further.
std::int64_t line_by_lnotab(Bytes table, bool is_cut, std::int64_t line,
                            std::int64_t instruction) noexcept {
  std::int64_t at = 0;
  while (!table.is_at_end()) {
    at += table.take();
    if (at > instruction) {
      return line;
    }
    line += table.take_signed();
  }
  return is_cut ? 0 : line;
}

// Lines::kDeltas: pairs that say how many bytes of code a stretch has, and how many lines further
// it is; -128: it has no line.
std::int64_t line_by_deltas(Bytes table, std::int64_t line, std::int64_t instruction) noexcept {
  constexpr std::int32_t kNoLine = -128;
  std::int64_t end = 0;
  while (!table.is_at_end()) {
    end += table.take();
    const std::int32_t delta = table.take_signed();
    line += delta == kNoLine ? 0 : delta;
    if (instruction < end) {
      return delta == kNoLine ? 0 : line;
    }
  }
  return 0;
}

// Lines::kLocations: entries for stretches of one to eight units of two bytes. The first byte has
// the kind of entry and the length. The kind says how the line and the columns follow.
std::int64_t line_by_locations(Bytes table, std::int64_t line, std::int64_t instruction) noexcept {
  enum : std::uint8_t { kOneLine = 10, kNoColumns = 13, kLong = 14, kNone = 15 };
  std::int64_t end = 0;
  while (!table.is_at_end()) {
    const std::uint8_t first = table.take();
    const std::uint8_t kind = first >> 3U & 15U;
    end += 2 * ((first & 7) + 1);
    if (kind == kLong || kind == kNoColumns) {
      line += table.take_signed_varint();
      for (int more = kind == kLong ? 3 : 0; more > 0; --more) {  // its last line, two columns
        table.take_varint();
      }
    } else if (kind != kNone) {
      line += kind < kOneLine ? 0 : kind - kOneLine;
      for (int more = kind < kOneLine ? 1 : 2; more > 0; --more) {  // columns
        table.take();
      }
    }
    if (instruction < end) {
      return kind == kNone ? 0 : line;
    }
  }
  return 0;
}

}  // namespace

std::uint32_t python_line(PythonLayout::Lines kind, std::string_view table, bool is_cut,
                          std::int32_t first_line, std::int64_t instruction) noexcept {
  std::int64_t line = first_line;
  if (instruction >= 0) {  // else the function has not begun
    switch (kind) {
      case PythonLayout::Lines::kLnotab:
        line = line_by_lnotab(Bytes(table), is_cut, first_line, instruction);
        break;
      case PythonLayout::Lines::kDeltas:
        line = line_by_deltas(Bytes(table), first_line, instruction);
        break;
      case PythonLayout::Lines::kLocations:
        line = line_by_locations(Bytes(table), first_line, instruction);
        break;
    }
  }
  return line > 0 && line <= INT32_MAX ? static_cast<std::uint32_t>(line) : 0;
}

}  // namespace cubfc
