#include "shim/tell/json.h"

#include <algorithm>
#include <array>

namespace cubfc::json {
namespace {

// How many bytes the first character has; 0 if it is no UTF-8. Precondition: there is one.
std::size_t character_length(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text[0]);
  const std::size_t length = byte < 0x80   ? 1
                             : byte < 0xC2 ? 0
                             : byte < 0xE0 ? 2
                             : byte < 0xF0 ? 3
                             : byte < 0xF5 ? 4
                                           : 0;
  if (length == 0 || length > text.size()) {
    return 0;
  }
  std::uint32_t point = length == 1 ? byte : byte & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) {
      return 0;
    }
    point = point << 6 | (next & 0x3FU);
  }
  // Refuses an overlong form, half of a UTF-16 surrogate pair, and a number beyond the last code
  // point.
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const bool good =
      point >= kLeast[length] && (point < 0xD800 || point > 0xDFFF) && point <= 0x10FFFF;
  return good ? length : 0;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      result += '?';
    } else if (byte < 0x20 || byte == '"' || byte == '\\') {
      result += format("\\u{:04x}", byte);
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result + '"';
}

std::string list_of(const std::vector<std::string>& entries) {
  std::string text;
  for (const std::string& entry : entries) {
    text += (text.empty() ? "" : ", ") + entry;
  }
  return "[" + text + "]";
}

}  // namespace cubfc::json
