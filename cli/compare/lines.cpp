#include "cli/compare/lines.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cli/report/wording.h"

namespace cubfc::cli::compare {
namespace {

constexpr std::size_t kMostLines = 3000;  // time and memory of pairs_of() grow by its square

// Pairs of equal lines of two texts, by their indices: the longest common subsequence. If one text
// has more than kMostLines lines, only pairs of lines with the same index.
struct Pair {
  std::size_t first;
  std::size_t second;
};
std::vector<Pair> pairs_of(const Lines& first, const Lines& second) {
  std::vector<Pair> pairs;
  const std::size_t shorter = std::min(first.size(), second.size());
  if (std::max(first.size(), second.size()) > kMostLines) {
    for (std::size_t i = 0; i < shorter; ++i) {
      if (first[i] == second[i]) {
        pairs.push_back({i, i});
      }
    }
    return pairs;
  }
  // longest[i][j]: the most pairs of the first text's lines from i on and the second's from j on.
  const std::size_t width = second.size() + 1;
  std::vector<std::uint16_t> longest((first.size() + 1) * width, 0);
  for (std::size_t i = first.size(); i-- > 0;) {
    for (std::size_t j = second.size(); j-- > 0;) {
      longest[i * width + j] =
          first[i] == second[j]
              ? static_cast<std::uint16_t>(longest[(i + 1) * width + j + 1] + 1)
              : std::max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  for (std::size_t i = 0, j = 0; i < first.size() && j < second.size();) {
    if (first[i] == second[j]) {
      pairs.push_back({i++, j++});
    } else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) {
      ++i;
    } else {
      ++j;
    }
  }
  return pairs;
}

bool is_within(const Lines& few, const Lines& many) {
  auto at = many.begin();
  for (const std::string& line : few) {
    at = std::find(at, many.end(), line);
    if (at == many.end()) {
      return false;
    }
    ++at;
  }
  return true;
}

std::string shown(char mark, const std::string& line) {
  const bool ends = line.ends_with('\n');
  return mark + report::printable(std::string_view(line).substr(0, line.size() - (ends ? 1 : 0)));
}

// The differences as a diff, with one equal line before and behind each.
Lines diff(const Lines& bare, const Lines& other) {
  std::vector<Pair> pairs = pairs_of(bare, other);
  pairs.push_back({bare.size(), other.size()});
  Lines shown_lines;
  std::size_t i = 0;
  std::size_t j = 0;
  for (const Pair& pair : pairs) {
    if (pair.first > i || pair.second > j) {
      shown_lines.push_back("@@ line " + std::to_string(i + 1) + " @@");
      if (i > 0) {
        shown_lines.push_back(shown(' ', bare[i - 1]));
      }
      for (; i < pair.first; ++i) {
        shown_lines.push_back(shown('-', bare[i]));
      }
      for (; j < pair.second; ++j) {
        shown_lines.push_back(shown('+', other[j]));
      }
      if (i < bare.size()) {
        shown_lines.push_back(shown(' ', bare[i]));
      }
    }
    i = pair.first + 1;
    j = pair.second + 1;
  }
  return shown_lines;
}

Lines beginning(const Lines& lines) {
  return {lines.begin(),
          lines.begin() + static_cast<std::ptrdiff_t>(std::min(lines.size(), kMostLines))};
}

}  // namespace

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

Twice::Twice(Lines bare, Lines again) : bare_(std::move(bare)), again_(std::move(again)) {
  if (bare_ == again_) {
    stable_ = bare_;
    return;
  }
  for (const Pair& pair : pairs_of(bare_, again_)) {
    stable_.push_back(bare_[pair.first]);
  }
}

Lines Twice::differences_of(const Lines& other) const {
  if (other == bare_ || other == again_) {
    return {};
  }
  if (bare_ != again_ && is_within(stable_, other) &&
      other.size() >= std::min(bare_.size(), again_.size()) &&
      other.size() <= std::max(bare_.size(), again_.size())) {
    return {};
  }
  const Lines found = diff(beginning(bare_), beginning(other));
  return found.empty() ? Lines{"(beyond what is shown, or in the ends of lines)"} : found;
}

}  // namespace cubfc::cli::compare
