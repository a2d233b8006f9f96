#include "cli/top/help_screen.h"

#include <array>

namespace cubfc::cli::top {

std::vector<Line> help_lines() {
  constexpr std::array kKeysText{
      "up down k j  select a process, or scroll",
      "PgUp PgDn    by a screen",
      "Home End     to the first, the last",
      "Enter        details of the process",
      "n p          the next, the one before",
      "Esc          back to the list",
      "s >          sort by the next column",
      "S <          by the one before",
      "r            the other way round",
      "?            this help",
      "q Ctrl-C     end",
  };
  constexpr std::array kSignsText{
      "",
      "The bar of a GPU, of all processes",
      "under cubfc:",
      "in use  allocated and not freed",
      "unused  held, and in no block",
      "others  all else: other processes,",
      "        contexts, modules",
      "",
      "NOTE, or ! before a row: needs a look;",
      "+ there is more; the details say why.",
  };
  std::vector<Line> lines;
  for (const char* const text : kKeysText) {
    lines.push_back({Line::Kind::kPlain, text});
  }
  for (const char* const text : kSignsText) {
    lines.push_back({Line::Kind::kPlain, text});
  }
  return lines;
}

}  // namespace cubfc::cli::top
