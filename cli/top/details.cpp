#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "cli/live/users.h"
#include "cli/report/wording.h"
#include "cli/top/attention.h"
#include "cli/top/table.h"
#include "cli/top/width.h"

namespace cubfc::cli::top {
namespace {

using figures::read;
using report::bytes_text;

constexpr std::size_t kMargin = 10;
constexpr std::size_t kMostCallers = 8;

std::string titled(std::string_view title, std::string_view text, std::size_t width) {
  return cut(left(title, kMargin) + std::string(text), width);
}

// Adds a text with a title before it, in as many lines as it takes.
void add_text(std::string_view title, std::string_view text, std::size_t width,
              std::vector<Line>& lines) {
  for (const std::string& part : wrapped(text, width > kMargin ? width - kMargin : 1)) {
    lines.push_back({Line::Kind::kPlain, titled(title, part, width)});
    title = "";
  }
}

void add_concerns(const Row& row, std::size_t width, std::vector<Line>& lines) {
  for (const Concern concern : concerns_of(row)) {
    const std::size_t first = lines.size();
    const std::string_view note = note_of(concern);
    add_text("note", std::string(note) + ": " + explain(concern, row), width, lines);
    lines[first].spans.push_back({kMargin, kMargin + note.size(), style_of(concern)});
  }
}

// How many cells of the map stand in a line, so that all lines are of equal length.
std::size_t cells_in_line(std::size_t room) {
  std::size_t cells = figures::kMapCells;
  while (cells > room && cells > 16) {
    cells /= 2;
  }
  return cells;
}

std::string what_of_map(const MapState& map) {
  switch (map.state) {
    case Map::kNotAsked:
    case Map::kAsked:
      return "asked for; it comes within a second or so";
    case Map::kCannotAsk:
      return "cannot be asked for: the file of its figures cannot be written to";
    case Map::kLate:
      return "has been asked for and does not come: no thread of cubfc's runs in the process, or "
             "it is stopped";
    case Map::kCame:
      break;
  }
  return "* in use, x partly, _ free";
}

// Adds what the cells of the map mean, and the cells in lines that fit.
void add_map(const Row& row, const MapState& map, std::size_t width, std::vector<Line>& lines) {
  std::string text = what_of_map(map);
  if (map.age && map.state != Map::kCame) {
    text = std::to_string(map.age->count()) + " s old; a new one " + text;
  }
  add_text("map", text, width, lines);
  if (!map.age) {
    return;
  }
  std::string cells;
  for (const char cell : row.device().map) {
    cells += cell == '*' || cell == 'x' || cell == '_' ? cell : ' ';
  }
  const std::size_t room = width > kMargin ? width - kMargin : 0;
  const std::size_t each = cells_in_line(room);
  for (std::size_t from = 0; from < cells.size(); from += each) {
    lines.push_back({Line::Kind::kPlain, titled("", cells.substr(from, each), width)});
  }
}

struct Part {
  std::string name;
  std::uint64_t now = 0;
  std::uint64_t at_peak = 0;
};

void add_parts(std::string_view title, const std::vector<Part>& parts, std::size_t width,
               std::vector<Line>& lines) {
  constexpr std::size_t kAmount = 12;
  const std::size_t room = width > 2 * kAmount + 12 ? width - 2 * kAmount : 12;
  const std::size_t name = std::min<std::size_t>(room, 40);
  lines.push_back(
      {Line::Kind::kTitles,
       cut(left(title, name) + right("now", kAmount) + right("at the peak", kAmount), width)});
  for (const Part& part : parts) {
    lines.push_back({Line::Kind::kPlain,
                     cut("  " + left(part.name, name - 2) + right(bytes_text(part.now), kAmount) +
                             right(bytes_text(part.at_peak), kAmount),
                         width)});
  }
}

std::vector<Part> kinds_of(const Row& row) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < row.sums.of.size(); ++i) {
    const std::uint64_t at_peak = read(row.device().at_peak[i]);
    if (row.sums.of[i] + at_peak > 0) {
      parts.push_back({std::string(report::memory_name(static_cast<trace::Memory>(i))),
                       row.sums.of[i], at_peak});
    }
  }
  return parts;
}

std::vector<Part> callers_of(const Row& row) {
  std::map<std::string, Part> by_name;
  const auto add = [&](figures::When when, std::uint64_t Part::*amount) {
    for (const auto& part : figures::callers_of(row.figures(), row.sums, when)) {
      const std::string name = shown(part.name);
      by_name[name].name = name;
      by_name[name].*amount += part.bytes;
    }
  };
  add(figures::When::kNow, &Part::now);
  add(figures::When::kAtPeak, &Part::at_peak);
  std::vector<Part> parts;
  for (const auto& [name, part] : by_name) {
    parts.push_back(part);
  }
  std::ranges::stable_sort(parts, [](const Part& one, const Part& other) {
    return std::max(one.now, one.at_peak) > std::max(other.now, other.at_peak);
  });
  if (parts.size() > kMostCallers) {
    Part rest{std::to_string(parts.size() - kMostCallers + 1) + " more"};
    for (std::size_t i = kMostCallers - 1; i < parts.size(); ++i) {
      rest.now += parts[i].now;
      rest.at_peak += parts[i].at_peak;
    }
    parts.resize(kMostCallers - 1);
    parts.push_back(rest);
  }
  return parts;
}

std::string settings_of(const figures::DeviceFigures& device) {
  std::string text =
      shown(device.allocator.get()) + ", free " + shown(device.free_mode.get()) + ", limit ";
  if (read(device.limit_bytes) == std::numeric_limits<std::uint64_t>::max()) {
    return text + "none";
  }
  const std::string origin = shown(figures::limit_origin(device));
  text += bytes_text(read(device.limit_bytes)) + (origin.empty() ? "" : " (" + origin + ")");
  const std::string group = shown(device.group.get());
  return text + (group.empty() ? ""
                               : ", group " + group + " (" +
                                     bytes_text(read(device.group_limit_bytes)) + " in all)");
}

}  // namespace

std::vector<Line> details(const Row& row, const MapState& map, std::size_t width) {
  const figures::ProcessFigures& process = row.figures();
  std::vector<Line> lines;
  lines.push_back(
      {Line::Kind::kGpu,
       cut("pid " + std::to_string(process.pid) + " on GPU " + std::to_string(row.device().number) +
               "  user " + shown(live::user_name(row.process->user)) + "  host " +
               shown(process.host.get()) + "  cubfc " + shown(process.version.get()),
           width)});
  add_text("program", shown(process.program.get()), width, lines);
  add_text("policy", settings_of(row.device()), width, lines);
  add_concerns(row, width, lines);
  add_map(row, map, width, lines);
  add_parts("memory", kinds_of(row), width, lines);
  if (const std::vector<Part> callers = callers_of(row); !callers.empty()) {
    add_parts("callers", callers, width, lines);
  }
  return lines;
}

}  // namespace cubfc::cli::top
