// Prints the table of docs/options.md, from the table of options that the library itself reads.
#include <cstdio>

#include "config/options.h"

int main() {
  const std::string table = cubfc::config::markdown_table();
  return std::fputs(table.c_str(), stdout) < 0 ? 1 : 0;
}
