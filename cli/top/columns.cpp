#include "cli/top/columns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "cli/live/users.h"
#include "cli/report/program_name.h"
#include "cli/report/wording.h"
#include "cli/top/attention.h"
#include "cli/top/width.h"

namespace cubfc::cli::top {
namespace {

using figures::read;
using report::bytes_text;
using report::count_text;

std::string whole(double value) {
  return count_text(static_cast<std::uint64_t>(std::llround(std::clamp(value, 0.0, 1e15))));
}

std::string percent(double share) {
  return whole(100 * share) + "%";
}

std::string note_in_table(const Row& row) {
  const std::vector<Concern> concerns = concerns_of(row);
  return concerns.empty() ? "-"
                          : std::string(note_of(concerns[0])) + (concerns.size() > 1 ? "+" : "");
}

enum class Side : bool { kLeft, kRight };

struct Column {
  Key key;
  std::string_view title;
  std::size_t width;  // at least
  std::size_t most;
  int rank;  // where there is no room, the highest is left out first; 0 never
  Side side;
  std::string (*text)(const Row& row);
};

constexpr std::size_t kProgramWidth = 16;  // at least
constexpr std::size_t kNameWidth = 24;     // at most
constexpr std::array<Column, kKeys> kColumns{{
    {Key::kPid, "PID", 7, 11, 0, Side::kRight,
     [](const Row& row) { return std::to_string(row.figures().pid); }},
    {Key::kUser, "USER", 8, kNameWidth, 1, Side::kLeft,
     [](const Row& row) { return shown(live::user_name(row.process->user)); }},
    {Key::kInUse, "IN USE", 10, 12, 0, Side::kRight,
     [](const Row& row) { return bytes_text(row.sums.in_use); }},
    {Key::kIdle, "IDLE", 10, 12, 9, Side::kRight,
     [](const Row& row) { return bytes_text(figures::idle_bytes(row.sums)); }},
    {Key::kReserved, "RESERVED", 10, 12, 12, Side::kRight,
     [](const Row& row) { return bytes_text(read(row.device().bytes_reserved)); }},
    {Key::kTaken, "TAKEN", 10, 12, 5, Side::kRight,
     [](const Row& row) { return bytes_text(read(row.device().bytes_taken)); }},
    {Key::kPeak, "PEAK", 10, 12, 4, Side::kRight,
     [](const Row& row) { return bytes_text(read(row.device().peak_bytes_in_use)); }},
    {Key::kLimit, "LIMIT", 10, 12, 6, Side::kRight,
     [](const Row& row) {
       const std::uint64_t limit = read(row.device().limit_bytes);
       return limit == std::numeric_limits<std::uint64_t>::max() ? "none" : bytes_text(limit);
     }},
    {Key::kFragmentation, "FRAG", 4, 4, 8, Side::kRight,
     [](const Row& row) { return percent(figures::fragmentation(row.sums)); }},
    {Key::kRate, "ALLOC/S", 9, 13, 3, Side::kRight,
     [](const Row& row) {
       return row.allocations_per_second ? whole(*row.allocations_per_second) : "-";
     }},
    {Key::kBlocked, "BLOCKED", 7, 9, 7, Side::kRight,
     [](const Row& row) { return row.blocked ? percent(*row.blocked) : "-"; }},
    {Key::kRefused, "REFUSED", 7, 13, 10, Side::kRight,
     [](const Row& row) { return count_text(read(row.device().refused)); }},
    {Key::kWaiting, "WAITING", 10, 12, 11, Side::kRight,
     [](const Row& row) { return bytes_text(row.sums.waiting); }},
    {Key::kNote, "NOTE", 11, 11, 2, Side::kLeft, note_in_table},
    {Key::kGroup, "GROUP", 5, kNameWidth, 0, Side::kLeft,
     [](const Row& row) {
       const std::string group = shown(row.device().group.get());
       return group.empty() ? "-" : group;
     }},
    {Key::kProgram, "PROGRAM", kProgramWidth, kProgramWidth, 0, Side::kLeft,
     [](const Row& row) { return shown(report::program_text(row.figures().program.get())); }},
}};

std::size_t sum_of(const Widths& widths) {
  std::size_t sum = 0;
  for (const std::size_t width : widths) {
    sum += width == 0 ? 0 : width + 1;  // with a space before it; the first is for '>' or '!'
  }
  return sum;
}

bool has_groups(const Look& look) {
  return std::ranges::any_of(look.gpus, [](const Gpu& gpu) {
    return std::ranges::any_of(gpu.rows,
                               [](const Row& row) { return !row.device().group.get().empty(); });
  });
}

std::optional<Style> style_of_cell(Key key, const std::vector<Concern>& concerns) {
  for (const Concern each : concerns) {
    if (key == Key::kNote || column_of(each) == key) {
      return style_of(each);
    }
  }
  return std::nullopt;
}

// A line with text(column) for each column that is not left out; style(key) says how it looks.
template <typename Text, typename CellStyle>
Line line_of(const Widths& widths, std::size_t width, Text text, CellStyle style) {
  Line line;
  for (std::size_t i = 0; i < kKeys; ++i) {
    if (widths.at(i) == 0) {
      continue;
    }
    const Column& column = kColumns.at(i);
    const std::string cell = text(column);
    const std::size_t blanks = widths.at(i) - std::min(columns_of(cell), widths.at(i));
    const std::size_t from = line.text.size() + 1 + (column.side == Side::kRight ? blanks : 0);
    line.text += ' ';
    line.text += i + 1 == kKeys                ? program_within(cell, widths.at(i))
                 : column.side == Side::kRight ? right(cell, widths.at(i))
                                               : left(cell, widths.at(i));
    if (const std::optional<Style> different = style(column.key)) {
      const std::size_t to = column.side == Side::kRight
                                 ? line.text.size()
                                 : std::min(from + cell.size(), line.text.size());
      line.spans.push_back({from, to, *different});
    }
  }
  line.text = cut(line.text, width);
  return line;
}

}  // namespace

Widths wanted_widths(const Look& look) {
  Widths widths{};
  for (std::size_t i = 0; i + 1 < kKeys; ++i) {
    const Column& column = kColumns.at(i);
    if ((column.key == Key::kUser && !look.has_users) ||
        (column.key == Key::kGroup && !has_groups(look))) {
      continue;
    }
    widths.at(i) = std::max(column.width, column.title.size());
    for (const Gpu& gpu : look.gpus) {
      for (const Row& row : gpu.rows) {
        widths.at(i) = std::clamp(columns_of(column.text(row)), widths.at(i), column.most);
      }
    }
  }
  widths.back() = kProgramWidth;
  return widths;
}

void widen(Widths& widths, const Widths& wanted) {
  std::ranges::transform(widths, wanted, widths.begin(),
                         [](std::size_t one, std::size_t other) { return std::max(one, other); });
}

Widths widths_within(const Widths& wanted, std::size_t width) {
  Widths widths = wanted;
  for (int rank = kKeys; rank > 0 && sum_of(widths) > width; --rank) {
    for (std::size_t i = 0; i < kKeys; ++i) {
      widths.at(i) = kColumns.at(i).rank == rank ? 0 : widths.at(i);
    }
  }
  const std::size_t others = sum_of(widths) - kProgramWidth;
  widths.back() = width > others ? width - others : 1;
  return widths;
}

Line titles_line(const Widths& widths, std::size_t width, const Order* sorted_by) {
  Line line = line_of(
      widths, width, [](const Column& each) { return std::string(each.title); },
      [&](Key key) {
        return sorted_by != nullptr && sorted_by->key == key ? std::optional(Style::kMarked)
                                                             : std::nullopt;
      });
  line.kind = Line::Kind::kTitles;
  return line;
}

// If the column of notes is left out, a '!' at the beginning says that there is a note.
Line row_line(const Row& row, const Widths& widths, std::size_t width) {
  const std::vector<Concern> concerns = concerns_of(row);
  Line line = line_of(
      widths, width, [&](const Column& each) { return each.text(row); },
      [&](Key key) { return style_of_cell(key, concerns); });
  line.kind = Line::Kind::kRow;
  line.row = &row;
  if (!concerns.empty() && widths.at(static_cast<std::size_t>(Key::kNote)) == 0 &&
      !line.text.empty()) {
    line.text[0] = '!';
  }
  return line;
}

std::string_view title_of(Key key) {
  return kColumns.at(static_cast<std::size_t>(key)).title;
}

std::string program_within(std::string_view text, std::size_t columns) {
  constexpr std::string_view kSign = "...";
  if (columns_of(text) <= columns) {
    return std::string(text);
  }
  const std::size_t end = std::min(text.find(' '), text.size());
  std::size_t name = 0;
  for (std::size_t slash = text.find('/', 1); slash < end; slash = text.find('/', slash + 1)) {
    const std::string_view rest = text.substr(slash);
    if (kSign.size() + columns_of(rest) <= columns) {
      return std::string(kSign) + std::string(rest);
    }
    name = slash + 1;
  }
  name = name == 0 && text.starts_with('/') ? 1 : name;
  return cut(text.substr(name < end ? name : 0), columns);
}

}  // namespace cubfc::cli::top
