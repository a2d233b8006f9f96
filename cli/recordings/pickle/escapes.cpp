#include "cli/recordings/pickle/escapes.h"

#include <charconv>
#include <cstdint>

namespace cubfc::recordings {
namespace {

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

// Reads so many hexadecimal digits at the beginning of the text.
std::optional<std::uint32_t> hexadecimal(std::string_view text, std::size_t digits) {
  std::uint32_t value = 0;
  const char* const end = text.data() + digits;
  if (text.size() < digits) {
    return std::nullopt;
  }
  const auto [stop, error] = std::from_chars(text.data(), end, value, 16);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<std::string> unescaped_unicode(std::string_view line) {
  std::string text;
  while (!line.empty()) {
    const std::size_t digits = line.starts_with("\\u") ? 4 : line.starts_with("\\U") ? 8 : 0;
    if (digits == 0) {
      append_utf8(text, static_cast<unsigned char>(line[0]));
      line.remove_prefix(1);
      continue;
    }
    const auto code = hexadecimal(line.substr(2), digits);
    if (!code || *code > 0x10ffff) {
      return std::nullopt;
    }
    append_utf8(text, *code);
    line.remove_prefix(2 + digits);
  }
  return text;
}

std::optional<std::string> unquoted(std::string_view line) {
  if (line.size() < 2 || (line[0] != '\'' && line[0] != '"') || line.back() != line[0]) {
    return std::nullopt;
  }
  line = line.substr(1, line.size() - 2);
  std::string text;
  while (!line.empty()) {
    const char first = line[0];
    line.remove_prefix(1);
    if (first != '\\') {
      text += first;
      continue;
    }
    constexpr std::string_view kLetters = "\\'\"ntrabfv";
    constexpr std::string_view kMeanings = "\\'\"\n\t\r\a\b\f\v";
    const std::size_t letter = line.empty() ? kLetters.npos : kLetters.find(line[0]);
    if (letter != kLetters.npos) {
      text += kMeanings[letter];
      line.remove_prefix(1);
    } else if (const auto code = hexadecimal(line.substr(line.empty() ? 0 : 1), 2);
               code && line[0] == 'x') {
      text += static_cast<char>(*code);
      line.remove_prefix(3);
    } else {
      return std::nullopt;
    }
  }
  return text;
}

}  // namespace cubfc::recordings
