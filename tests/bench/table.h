// A table for a reader on standard output.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace cubfc::bench {

// Rows of text; the first column is left-aligned, the others right.
class Table {
 public:
  Table(std::string title, std::vector<std::string> head) : title_(std::move(title)) {
    rows_.push_back(std::move(head));
  }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  void print() const {
    if (rows_.size() == 1) {
      return;
    }
    std::vector<std::size_t> widths(rows_.front().size());
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], row[i].size());
      }
    }
    std::printf("\n%s\n", title_.c_str());
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        const int width = static_cast<int>(widths[i]);
        std::printf(i == 0 ? "  %-*s" : "  %*s", width, row[i].c_str());
      }
      std::printf("\n");
    }
  }

 private:
  std::string title_;
  std::vector<std::vector<std::string>> rows_;
};

inline std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

}  // namespace cubfc::bench
