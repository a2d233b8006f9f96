// A part of the report for a terminal, of rows of at most 80 characters, and its columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cubfc::report {

struct TextTable {
  std::string title;
  std::vector<std::string> rows;  // none: the part is left out
};

// Characters of UTF-8, each of which takes one column.
std::size_t characters_of(const std::string& text);

// In a column so wide, on its left or right side; what is longer stays as it is.
std::string left(const std::string& text, std::size_t width);
std::string right(const std::string& text, std::size_t width);
// The beginning, or the end, of what is longer: "a long na...", "...e of it".
std::string beginning_of(const std::string& text, std::size_t width);  // not filled up
std::string beginning_in(const std::string& text, std::size_t width);
std::string end_in(const std::string& text, std::size_t width);

}  // namespace cubfc::report
