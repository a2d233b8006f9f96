#include "cli/shell_words.h"

#include <string_view>

namespace cubfc::cli {

std::string in_single_quotes(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return "'" + result + "'";
}

std::string for_shell(const std::string& text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./+,-";
  std::string word = text.starts_with('-') ? "./" + text : text;  // so that it is no option
  return word.find_first_not_of(kPlain) == std::string::npos ? word : in_single_quotes(word);
}

}  // namespace cubfc::cli
