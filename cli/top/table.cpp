#include "cli/top/table.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>

#include "cli/report/program_name.h"
#include "cli/report/wording.h"
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

struct Column {
  Key key;
  std::string_view title;
  std::string_view name;
  std::size_t width;  // at least
  int rank;           // who says least goes first; 0 stays
  std::string (*text)(const Row& row);
};

constexpr std::size_t kProgramWidth = 16;  // at least
constexpr std::array<Column, kKeys> kColumns{{
    {Key::kPid, "PID", "process id", 7, 0,
     [](const Row& row) { return std::to_string(row.figures().pid); }},
    {Key::kInUse, "IN USE", "in use", 10, 0,
     [](const Row& row) { return bytes_text(row.sums.in_use); }},
    {Key::kIdle, "IDLE", "idle", 10, 7,
     [](const Row& row) { return bytes_text(figures::idle_bytes(row.sums)); }},
    {Key::kReserved, "RESERVED", "reserved", 10, 10,
     [](const Row& row) { return bytes_text(read(row.device().bytes_reserved)); }},
    {Key::kTaken, "TAKEN", "taken", 10, 3,
     [](const Row& row) { return bytes_text(read(row.device().bytes_taken)); }},
    {Key::kPeak, "PEAK", "peak", 10, 2,
     [](const Row& row) { return bytes_text(read(row.device().peak_bytes_in_use)); }},
    {Key::kLimit, "LIMIT", "limit", 10, 4,
     [](const Row& row) {
       const std::uint64_t limit = read(row.device().limit_bytes);
       return limit == std::numeric_limits<std::uint64_t>::max() ? "none" : bytes_text(limit);
     }},
    {Key::kFragmentation, "FRAG", "fragmentation", 4, 6,
     [](const Row& row) { return percent(figures::fragmentation(row.sums)); }},
    {Key::kRate, "ALLOC/S", "allocations per second", 8, 1,
     [](const Row& row) {
       return row.allocations_per_second ? whole(*row.allocations_per_second) : "-";
     }},
    {Key::kBlocked, "BLOCKED", "time in frees that waited", 7, 5,
     [](const Row& row) { return row.blocked ? percent(*row.blocked) : "-"; }},
    {Key::kRefused, "REFUSED", "refused", 7, 8,
     [](const Row& row) { return count_text(read(row.device().refused)); }},
    {Key::kWaiting, "WAITING", "waiting", 10, 9,
     [](const Row& row) { return bytes_text(row.sums.waiting); }},
    {Key::kGroup, "GROUP", "group", 5, 0,
     [](const Row& row) {
       const std::string group = shown(row.device().group.get());
       return group.empty() ? "-" : group;
     }},
    {Key::kProgram, "PROGRAM", "program", kProgramWidth, 0,
     [](const Row& row) { return shown(report::program_text(row.figures().program.get())); }},
}};

// The columns of a table: how wide each is, 0 for those that are left out. The same for all
// devices, so that the eye finds its way.
using Widths = std::array<std::size_t, kKeys>;

std::size_t sum_of(const Widths& widths) {
  std::size_t sum = 0;
  for (const std::size_t width : widths) {
    sum += width == 0 ? 0 : width + 1;  // with the mark of the selection before the first
  }
  return sum;
}

bool has_groups(const Look& look) {
  return std::ranges::any_of(look.gpus, [](const Gpu& gpu) {
    return std::ranges::any_of(gpu.rows,
                               [](const Row& row) { return !row.device().group.get().empty(); });
  });
}

Widths widths_for(const Look& look, std::size_t width) {
  Widths widths{};
  for (std::size_t i = 0; i + 1 < kKeys; ++i) {
    widths.at(i) = std::max(kColumns.at(i).width, kColumns.at(i).title.size());
    for (const Gpu& gpu : look.gpus) {
      for (const Row& row : gpu.rows) {
        widths.at(i) = std::max(widths.at(i), kColumns.at(i).text(row).size());
      }
    }
  }
  if (!has_groups(look)) {
    widths.at(static_cast<std::size_t>(Key::kGroup)) = 0;
  }
  widths.back() = kProgramWidth;
  for (int rank = kKeys; rank > 0 && sum_of(widths) > width; --rank) {
    for (std::size_t i = 0; i < kKeys; ++i) {
      widths.at(i) = kColumns.at(i).rank == rank ? 0 : widths.at(i);
    }
  }
  const std::size_t others = sum_of(widths) - kProgramWidth;
  widths.back() = width > others ? width - others : 1;
  return widths;
}

std::string with_mark(const Column& column, const Order* sorted_by) {
  const bool is_marked = sorted_by != nullptr && sorted_by->key == column.key;
  return is_marked ? (sorted_by->reversed ? "^" : "v") + std::string(column.title)
                   : std::string(column.title);
}

// Numbers to the right, the program as far as there is room.
template <typename Text>
std::string line_of(const Widths& widths, Text text) {
  std::string line;
  for (std::size_t i = 0; i < kKeys; ++i) {
    if (widths.at(i) > 0) {
      line += ' ';
      line += i + 1 == kKeys ? cut(text(kColumns.at(i)), widths.at(i))
                             : right(text(kColumns.at(i)), widths.at(i));
    }
  }
  return line;
}

std::string header_of(const Gpu& gpu) {
  std::uint64_t in_use = 0;
  std::uint64_t taken = 0;
  for (const Row& row : gpu.rows) {
    in_use += row.sums.in_use;
    taken += read(row.device().bytes_taken);
  }
  const std::size_t count = gpu.rows.size();
  return "GPU " + std::to_string(gpu.number) + "  " + shown(gpu.name) + "  " +
         bytes_text(gpu.total_bytes) + "  " + count_text(count) +
         (count == 1 ? " process: " : " processes: ") + bytes_text(in_use) + " in use, " +
         bytes_text(taken) + " taken (" + report::share_text(taken, gpu.total_bytes) + ")";
}

// Of the groups whose budgets its processes share, what they have taken together.
std::vector<std::string> groups_of(const Gpu& gpu) {
  struct Sum {
    std::uint64_t limit = 0;
    std::uint64_t taken = 0;
    std::size_t processes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const Row& row : gpu.rows) {
    if (const std::string group = shown(row.device().group.get()); !group.empty()) {
      Sum& sum = sums[group];
      sum.limit = std::max(sum.limit, read(row.device().group_limit_bytes));
      sum.taken += read(row.device().bytes_taken);
      ++sum.processes;
    }
  }
  std::vector<std::string> lines;
  for (const auto& [group, sum] : sums) {
    lines.push_back("group " + group + "  " + bytes_text(sum.limit) + "  " +
                    count_text(sum.processes) +
                    (sum.processes == 1 ? " process: " : " processes: ") + bytes_text(sum.taken) +
                    " taken (" + report::share_text(sum.taken, sum.limit) + ")");
  }
  return lines;
}

std::size_t without_device(const Look& look) {
  return static_cast<std::size_t>(std::ranges::count_if(
      look.processes.all, [](const live::Process& each) { return each.devices().empty(); }));
}

}  // namespace

std::vector<Line> table(const Look& look, std::size_t width, const Order* sorted_by) {
  std::vector<Line> lines;
  const Widths widths = widths_for(look, width);
  for (const Gpu& gpu : look.gpus) {
    if (!lines.empty()) {
      lines.emplace_back();
    }
    lines.push_back({Line::Kind::kGpu, cut(header_of(gpu), width)});
    for (const std::string& group : groups_of(gpu)) {
      lines.push_back({Line::Kind::kPlain, cut(group, width)});
    }
    lines.push_back(
        {Line::Kind::kTitles,
         cut(line_of(widths, [&](const Column& each) { return with_mark(each, sorted_by); }),
             width)});
    for (const Row& row : gpu.rows) {
      lines.push_back(
          {Line::Kind::kRow,
           cut(line_of(widths, [&](const Column& each) { return each.text(row); }), width), &row});
    }
  }
  if (const std::size_t count = without_device(look); count > 0) {
    lines.push_back({Line::Kind::kPlain,
                     cut(count_text(count) + (count == 1 ? " process has" : " processes have") +
                             " used no GPU yet",
                         width)});
  }
  return lines;
}

std::vector<Line> problems(const Look& look, std::size_t width) {
  std::vector<Line> lines;
  for (const std::string& problem : look.processes.unusable) {
    lines.push_back({Line::Kind::kProblem, cut(shown(problem), width)});
  }
  return lines;
}

std::vector<Line> nothing_there(const Look& look, const std::vector<int>& pids) {
  if (!look.processes.all.empty()) {
    return {};
  }
  std::string wanted;
  for (const int pid : pids) {
    wanted += (wanted.empty() ? "" : ", ") + std::to_string(pid);
  }
  const std::string user = std::to_string(geteuid());
  std::vector<std::string> texts{
      pids.empty() ? "No process under cubfc is seen."
                   : "No process " + wanted + " under cubfc is seen.",
      "", "A process is seen from its first use of CUDA on, unless",
      "- libcubfc.so is not preloaded in it (LD_PRELOAD), or CUBFC_DISABLE is set",
      "- CUBFC_SHARE_STATS=false is set"};
  if (geteuid() != 0) {
    texts.emplace_back("- it is another user's: root sees all");
  }
  texts.push_back("- it runs in a container that does not share the folder of its figures:");
  texts.push_back("  $XDG_RUNTIME_DIR/cubfc, /run/user/" + user + "/cubfc, /dev/shm/cubfc-" + user +
                  " or /tmp/cubfc-" + user);
  texts.push_back("- another version of cubfc runs in it");
  std::vector<Line> lines;
  for (const std::string& text : texts) {
    lines.push_back({Line::Kind::kPlain, text});
  }
  return lines;
}

std::string_view name_of(Key key) {
  return kColumns.at(static_cast<std::size_t>(key)).name;
}

}  // namespace cubfc::cli::top
