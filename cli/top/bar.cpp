#include "cli/top/bar.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "cli/report/wording.h"
#include "cli/top/width.h"

namespace cubfc::cli::top {
namespace {

struct Stretch {
  std::string_view sign;
  std::string_view name;
  std::optional<Style> style;
  std::uint64_t bytes = 0;
};

std::vector<Stretch> stretches_of(const Gpu& gpu) {
  const bool blocks = shows_utf8();
  const std::uint64_t in_use = std::min(gpu.in_use, gpu.taken);
  std::vector<Stretch> all{{blocks ? "\u2588" : "#", "in use", Style::kUsed, in_use},
                           {blocks ? "\u2593" : "=", "unused", Style::kUnused, gpu.taken - in_use}};
  if (gpu.memory) {
    const std::uint64_t used = std::min(gpu.memory->used_bytes, gpu.memory->total_bytes);
    // `taken` may be more than `used`: it is from another moment, and managed memory may exceed the
    // GPU's.
    all.push_back(
        {blocks ? "\u2592" : "o", "others", Style::kOthers, used - std::min(used, gpu.taken)});
    all.push_back({blocks ? "\u2591" : ".", "free", std::nullopt, gpu.memory->total_bytes - used});
  } else {
    all.push_back({"?", "others or free, not known", std::nullopt,
                   gpu.total_bytes - std::min(gpu.total_bytes, gpu.taken)});
  }
  return all;
}

// How many cells of the bar each stretch gets: `cells` in all, and at least one for a stretch that
// has bytes, as far as they suffice.
std::vector<std::size_t> cells_of(const std::vector<Stretch>& stretches, std::size_t cells) {
  double sum = 0;
  for (const Stretch& each : stretches) {
    sum += static_cast<double>(each.bytes);
  }
  std::vector<std::size_t> counts;
  for (const Stretch& each : stretches) {
    const double share = sum > 0 ? static_cast<double>(each.bytes) / sum : 0;
    const auto count = static_cast<std::size_t>(std::llround(share * static_cast<double>(cells)));
    counts.push_back(std::max<std::size_t>(count, each.bytes > 0 ? 1 : 0));
  }
  auto over =
      static_cast<std::ptrdiff_t>(std::accumulate(counts.begin(), counts.end(), std::size_t{0})) -
      static_cast<std::ptrdiff_t>(cells);
  for (; over > 0; --over) {
    --*std::ranges::max_element(counts);
  }
  if (sum > 0 && over < 0) {
    *std::ranges::max_element(counts) += static_cast<std::size_t>(-over);
  }
  return counts;
}

void append(Line& line, std::string_view text, std::optional<Style> style) {
  if (style && !text.empty()) {
    line.spans.push_back({line.text.size(), line.text.size() + text.size(), *style});
  }
  line.text += text;
}

Line bar_of(const std::vector<Stretch>& stretches, std::size_t cells) {
  Line line;
  line.text = "[";
  const std::vector<std::size_t> counts = cells_of(stretches, cells);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::string part;
    for (std::size_t n = 0; n < counts[i]; ++n) {
      part += stretches[i].sign;
    }
    append(line, part, stretches[i].style);
  }
  line.text += ']';
  return line;
}

// Each sign with its amount and meaning, in lines of at most `width` columns.
std::vector<Line> legend_of(const std::vector<Stretch>& stretches, std::size_t width) {
  std::vector<Line> lines(1);
  for (const Stretch& each : stretches) {
    const std::string words = ' ' + report::bytes_text(each.bytes) + ' ' + std::string(each.name);
    Line* last = &lines.back();
    if (!last->text.empty() && columns_of(last->text) + 3 + columns_of(words) > width) {
      last = &lines.emplace_back();
    }
    last->text += last->text.empty() ? "" : "  ";
    append(*last, each.sign, each.style);
    last->text += words;
  }
  return lines;
}

}  // namespace

std::vector<Line> bar_lines(const Gpu& gpu, std::size_t width, bool brief) {
  constexpr std::size_t kLeast = 20;
  constexpr std::size_t kMost = 40;
  constexpr std::size_t kAround = 4;  // brackets, and two blanks before the legend
  const std::vector<Stretch> stretches = stretches_of(gpu);
  Line legend = legend_of(stretches, ~std::size_t{0})[0];
  const std::size_t wide = columns_of(legend.text) + kAround;
  std::vector<Line> lines;
  if (width >= wide + kLeast) {
    Line line = bar_of(stretches, std::min(width - wide, kMost));
    line.text += "  ";
    for (const Span& span : legend.spans) {
      line.spans.push_back({span.from + line.text.size(), span.to + line.text.size(), span.style});
    }
    line.text += legend.text;
    if (const std::string why = " (" + gpu.unknown + ')';
        !gpu.memory && !gpu.unknown.empty() && columns_of(line.text + why) <= width) {
      line.text += why;
    }
    lines.push_back(std::move(line));
  } else {
    lines.push_back(bar_of(stretches, std::clamp<std::size_t>(width, 3, kMost + 2) - 2));
    if (!brief) {
      const std::vector<Line> more = legend_of(stretches, width);
      lines.insert(lines.end(), more.begin(), more.end());
    }
  }
  for (Line& line : lines) {
    line.text = cut(line.text, width);
    line.gpu = &gpu;
  }
  return lines;
}

}  // namespace cubfc::cli::top
