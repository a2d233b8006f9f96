#include "cli/report/text_table.h"

#include <algorithm>

#include "cli/report/wording.h"

namespace cubfc::report {
namespace {

bool begins_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

std::string spaces_for(const std::string& text, std::size_t width) {
  return std::string(width - std::min(characters_of(text), width), ' ');
}

}  // namespace

std::size_t characters_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string left(const std::string& text, std::size_t width) {
  return text + spaces_for(text, width);
}

std::string right(const std::string& text, std::size_t width) {
  return spaces_for(text, width) + text;
}

std::string beginning_in(const std::string& text, std::size_t width) {
  return left(beginning_of(text, width), width);
}

std::string beginning_of(const std::string& text, std::size_t width) {
  if (characters_of(text) <= width) {
    return text;
  }
  std::size_t end = 0;
  for (std::size_t characters = 0; characters <= width - 3; ++end) {
    characters += begins_character(text[end]) ? 1U : 0U;
  }
  return text.substr(0, end - 1) + "...";
}

std::string end_in(const std::string& text, std::size_t width) {
  return left(end_of(text, width), width);
}

}  // namespace cubfc::report
