// Screen: makes its lines, and chooses those for which there is room.
#include <algorithm>
#include <array>
#include <ctime>

#include "cli/report/wording.h"
#include "cli/top/help_screen.h"
#include "cli/top/paint.h"
#include "cli/top/screen.h"

namespace cubfc::cli::top {
namespace {

constexpr std::size_t kBriefBelow = 16;  // with fewer lines, bars are brief
constexpr std::size_t kPinBelow = 4;     // with fewer lines, no GPU's header stays above the list

std::string counted(std::size_t count, const std::string& what, const std::string& plural) {
  return report::count_text(count) + " " + (count == 1 ? what : plural);
}

std::vector<Line> part_of(const std::vector<Line>& all, std::size_t first, std::size_t count) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(std::min(first, all.size()));
  const auto rest = static_cast<std::size_t>(all.end() - begin);
  return {begin, begin + static_cast<std::ptrdiff_t>(std::min(count, rest))};
}

void append_lines(std::vector<Line>& lines, const std::vector<Line>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

std::string range_text(std::size_t first, std::size_t room, std::size_t all) {
  return report::count_text(first + 1) + "-" + report::count_text(std::min(first + room, all)) +
         " of " + report::count_text(all);
}

}  // namespace

std::string Screen::first_line() const {
  const auto seconds = static_cast<std::time_t>(look_->unix_ns / 1'000'000'000);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 16> clock{};
  std::strftime(clock.data(), clock.size(), "%H:%M:%S", &local);
  const bool is_whole = list_.first == 0 && list_.room >= list_.all;
  return std::string("cubfc top  ") + clock.data() + "  " +
         counted(look_->processes.all.size(), "process", "processes") + " on " +
         counted(look_->gpus.size(), "GPU", "GPUs") +
         (is_whole || has_help_ ? "" : ", lines " + range_text(list_.first, list_.room, list_.all));
}

// What matters most comes first, since a narrow terminal has no room for the rest.
std::string Screen::last_line() const {
  if (has_help_) {
    return help_.first + help_.room < help_.all ? "any key shows more" : "any key goes back";
  }
  if (!note_.empty()) {
    return note_;
  }
  if (has_details_) {
    const bool is_whole = details_.room >= details_.all;
    return "q quit  ? help  Esc back  " +
           (is_whole ? ""
                     : "up/down scroll, " +
                           range_text(details_.first, details_.room, details_.all) + "  ") +
           "n/p other process";
  }
  return "q quit  ? help  sorted by " + std::string(title_of(order_.key)) +
         (order_.reversed ? ", reversed" : "") +
         "; s changes it  up/down select  Enter map and callers";
}

// Scrolls the list so that the selected row is shown; for the first row, also what stands above it.
void Screen::scroll_to_selected(const std::vector<Line>& all) {
  const Row* const row = selected_row();
  const auto selected = static_cast<std::size_t>(
      std::ranges::find_if(all,
                           [&](const Line& each) { return row != nullptr && each.row == row; }) -
      all.begin());
  if (selected < all.size()) {
    const bool is_first = row == rows_[0] && selected < list_.room;
    list_.first = std::min(list_.first, is_first ? 0 : selected);
    list_.first = std::max(list_.first, selected + 1 > list_.room ? selected + 1 - list_.room : 0);
  }
  list_.first = std::min(list_.first, all.size() - std::min(all.size(), list_.room));
}

// The titles of the columns, which stay above the list, and the part of the list for which there is
// room. If there are several GPUs, the header of the one to which the first line belongs stays,
// too.
std::vector<Line> Screen::list_part(std::size_t width, std::size_t lines) {
  std::vector<Line> shown_lines = nothing_there(*look_, pids_);
  const bool has_titles = shown_lines.empty() && lines > 1;
  const Widths widths = widths_within(widths_, width);
  std::vector<Line> all =
      shown_lines.empty() ? list(*look_, widths, width, lines < kBriefBelow) : shown_lines;
  append_lines(all, problems(*look_, width));
  shown_lines.clear();
  if (has_titles) {
    shown_lines.push_back(titles_line(widths, width, &order_));
    --lines;
  }
  const bool can_pin = look_->gpus.size() > 1 && lines >= kPinBelow && all.size() > lines;
  list_.room = can_pin ? lines - 1 : lines;
  list_.all = all.size();
  scroll_to_selected(all);
  const Gpu* const first = list_.first < all.size() ? all[list_.first].gpu : nullptr;
  if (can_pin && first != nullptr && all[list_.first].kind != Line::Kind::kGpu) {
    shown_lines.push_back(gpu_line(*first, width));
  } else if (can_pin) {
    ++list_.room;
  }
  append_lines(shown_lines, part_of(all, list_.first, list_.room));
  return shown_lines;
}

// How many of the `lines` the list gets when the details take `of_details`: the lines that the
// details leave. At least kLeast lines, which show the selected process and its GPU; but that
// minimum is never more than half of `lines`.
std::size_t Screen::lines_of_list(std::size_t width, std::size_t lines,
                                  std::size_t of_details) const {
  constexpr std::size_t kLeast = 4;  // titles, header, bar, row
  const std::size_t all = 1 + list(*look_, widths_within(widths_, width), width, true).size() +
                          look_->processes.unusable.size();
  const std::size_t least = std::min({all, kLeast, lines / 2});
  const std::size_t left_over = lines > of_details ? lines - of_details : 0;
  return std::clamp(left_over, least, std::max(all, least));
}

std::vector<Line> Screen::body(std::size_t width, std::size_t lines) {
  if (has_help_) {
    const std::vector<Line> all = help_lines();
    help_.room = std::max<std::size_t>(lines, 1);
    help_.all = all.size();
    return part_of(all, help_.first, help_.room);
  }
  const Row* const row = selected_row();
  if (!has_details_ || row == nullptr) {
    return list_part(width, lines);
  }
  const std::vector<Line> all = details(*row, map_state(), width);
  const std::size_t above = lines_of_list(width, lines, all.size() + 1);
  std::vector<Line> shown_lines = list_part(width, above);
  const std::size_t used = shown_lines.size();
  if (lines > used + all.size()) {
    shown_lines.emplace_back();
  }
  details_.room = lines - std::min(lines, shown_lines.size());
  details_.all = all.size();
  scroll_details_by(0);
  append_lines(shown_lines, part_of(all, details_.first, details_.room));
  return shown_lines;
}

std::string Screen::drawn(const Size& size) {
  std::vector<Line> lines(1);
  if (size.lines > 2) {
    append_lines(lines, body(size.columns, size.lines - 2));
    lines.resize(size.lines - 1);
  }
  lines[0].text = first_line();  // after body(), which finds how much of the list is shown
  if (size.lines > 1) {
    lines.push_back({Line::Kind::kTitles, last_line()});
  }
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool selected = lines[i].row != nullptr && lines[i].row == selected_row();
    text += (i == 0 ? "" : "\n") + painted(lines[i], size.columns, selected, plain_);
  }
  return text;
}

}  // namespace cubfc::cli::top
