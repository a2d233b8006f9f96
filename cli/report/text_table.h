// A part of the report for a terminal, of rows of at most 80 characters.
#pragma once

#include <string>
#include <vector>

namespace cubfc::report {

struct TextTable {
  std::string title;
  std::vector<std::string> rows;  // none: the part is left out
};

}  // namespace cubfc::report
