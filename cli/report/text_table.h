// A table of the report for a terminal, of rows of at most 80 characters, and functions that fit
// text into columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cubfc::report {

struct TextTable {
  std::string title;
  std::vector<std::string> rows;  // none: the part is left out
};

// The number of characters in a text of UTF-8; each is taken to have the width of one column.
std::size_t characters_of(const std::string& text);

// Fill a text up to `width`, so that it stands on the left or right side. A longer text stays as it
// is.
std::string left(const std::string& text, std::size_t width);
std::string right(const std::string& text, std::size_t width);
// Keep the beginning, or the end, of a text that is longer than `width`: "a long na...", "...e of
// it". The last two fill it up, too.
std::string beginning_of(const std::string& text, std::size_t width);  // not filled up
std::string beginning_in(const std::string& text, std::size_t width);
std::string end_in(const std::string& text, std::size_t width);

}  // namespace cubfc::report
