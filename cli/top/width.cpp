#include "cli/top/width.h"

#include <langinfo.h>

#include <algorithm>
#include <cwchar>

#include "cli/report/wording.h"

namespace cubfc::cli::top {
namespace {

struct Character {
  std::size_t bytes;
  int columns;  // below 0: cannot be shown
};

// The first character of a text, which must not be empty.
Character first_of(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text[0]);
  if (byte < 0x80) {
    return {1, byte < 0x20 || byte == 0x7f ? -1 : 1};
  }
  std::mbstate_t state{};
  wchar_t wide = 0;
  const std::size_t bytes = std::mbrtowc(&wide, text.data(), text.size(), &state);
  return bytes == 0 || bytes > text.size() ? Character{1, -1} : Character{bytes, wcwidth(wide)};
}

}  // namespace

std::string shown(std::string_view text) {
  // First replaces characters that change the direction of text, which have no width.
  const std::string clean = report::printable(text);
  std::string result;
  for (std::string_view rest = clean; !rest.empty();) {
    const Character character = first_of(rest);
    result += character.columns < 0 ? "?" : rest.substr(0, character.bytes);
    rest.remove_prefix(character.bytes);
  }
  return result;
}

bool shows_utf8() {
  return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    const Character character = first_of(text);
    columns += character.columns < 0 ? 1 : static_cast<std::size_t>(character.columns);
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string cut(std::string_view text, std::size_t columns) {
  if (columns_of(text) <= columns) {
    return std::string(text);
  }
  const std::string_view sign = columns >= 4 ? ".." : "";
  std::size_t taken = sign.size();
  std::size_t bytes = 0;
  while (true) {
    const Character character = first_of(text.substr(bytes));
    taken += character.columns < 0 ? 1 : static_cast<std::size_t>(character.columns);
    if (taken > columns) {
      return std::string(text.substr(0, bytes)) + std::string(sign);
    }
    bytes += character.bytes;
  }
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines;
  do {
    std::size_t bytes = 0;
    std::size_t taken = 0;
    std::size_t blank = std::string_view::npos;
    while (bytes < text.size()) {
      const Character character = first_of(text.substr(bytes));
      taken += character.columns < 0 ? 1 : static_cast<std::size_t>(character.columns);
      if (taken > std::max<std::size_t>(columns, 2)) {  // room for any character
        break;
      }
      blank = text[bytes] == ' ' ? bytes : blank;
      bytes += character.bytes;
    }
    const bool at_blank =
        bytes < text.size() && text[bytes] != ' ' && blank != std::string_view::npos && blank > 0;
    bytes = at_blank ? blank : bytes;
    lines.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
    text.remove_prefix(text.starts_with(' ') ? 1 : 0);
  } while (!text.empty());
  return lines;
}

std::string left(std::string_view text, std::size_t columns) {
  const std::string kept = cut(text, columns);
  return kept + std::string(columns - columns_of(kept), ' ');
}

std::string right(std::string_view text, std::size_t columns) {
  const std::string kept = cut(text, columns);
  return std::string(columns - columns_of(kept), ' ') + kept;
}

}  // namespace cubfc::cli::top
