#include "cli/top/table.h"

#include <unistd.h>

#include <algorithm>
#include <map>

#include "cli/report/wording.h"
#include "cli/top/attention.h"
#include "cli/top/bar.h"
#include "cli/top/width.h"

namespace cubfc::cli::top {
namespace {

using figures::read;
using report::bytes_text;
using report::count_text;

// For each group whose limit processes on the GPU share: what these have taken together.
std::vector<Line> group_lines(const Gpu& gpu, std::size_t width) {
  struct Sum {
    std::uint64_t limit = 0;
    std::uint64_t in_use = 0;
    std::uint64_t taken = 0;
    std::size_t processes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const Row& row : gpu.rows) {
    if (const std::string group = shown(row.device().group.get()); !group.empty()) {
      Sum& sum = sums[group];
      sum.limit = std::max(sum.limit, read(row.device().group_limit_bytes));
      sum.in_use += row.sums.in_use;
      sum.taken += read(row.device().bytes_taken);
      ++sum.processes;
    }
  }
  std::vector<Line> lines;
  for (const auto& [group, sum] : sums) {
    const std::string text =
        "group " + group + "  " + bytes_text(sum.limit) + "  " + count_text(sum.processes) +
        (sum.processes == 1 ? " process: " : " processes: ") + bytes_text(sum.taken) + " taken (" +
        report::share_text(sum.taken, sum.limit) + ")";
    Line line{Line::Kind::kPlain, text, nullptr, &gpu};
    if (is_near(sum.in_use, sum.limit)) {
      line.text += ", near limit";
      line.spans.push_back({text.size() + 2, line.text.size(), Style::kAlarm});
    }
    line.text = cut(line.text, width);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::size_t without_device(const Look& look) {
  return static_cast<std::size_t>(std::ranges::count_if(
      look.processes.all, [](const live::Process& each) { return each.devices().empty(); }));
}

void append(std::vector<Line>& lines, std::vector<Line> more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

// The lines above a device's processes: header, bar, groups.
std::vector<Line> head_of(const Gpu& gpu, std::size_t width, bool brief) {
  std::vector<Line> lines{gpu_line(gpu, width)};
  append(lines, bar_lines(gpu, width, brief));
  append(lines, group_lines(gpu, width));
  return lines;
}

std::vector<Line> rows_of(const Gpu& gpu, const Widths& widths, std::size_t width) {
  std::vector<Line> lines;
  for (const Row& row : gpu.rows) {
    lines.push_back(row_line(row, widths, width));
    lines.back().gpu = &gpu;
  }
  return lines;
}

void add_without_device(const Look& look, std::size_t width, std::vector<Line>& lines) {
  if (const std::size_t count = without_device(look); count > 0) {
    lines.push_back({Line::Kind::kPlain,
                     cut(count_text(count) + (count == 1 ? " process has" : " processes have") +
                             " used no GPU yet",
                         width)});
  }
}

}  // namespace

Line gpu_line(const Gpu& gpu, std::size_t width) {
  std::uint64_t in_use = 0;
  std::uint64_t taken = 0;
  for (const Row& row : gpu.rows) {
    in_use += row.sums.in_use;
    taken += read(row.device().bytes_taken);
  }
  const std::size_t count = gpu.rows.size();
  const std::string text = "GPU " + std::to_string(gpu.number) + "  " + shown(gpu.name) + "  " +
                           bytes_text(gpu.total_bytes) + "  " + count_text(count) +
                           (count == 1 ? " process: " : " processes: ") + bytes_text(in_use) +
                           " in use, " + bytes_text(taken) + " taken (" +
                           report::share_text(taken, gpu.total_bytes) + ")";
  return {Line::Kind::kGpu, cut(text, width), nullptr, &gpu};
}

std::vector<Line> table(const Look& look, std::size_t width) {
  std::vector<Line> lines;
  const Widths widths = widths_within(wanted_widths(look), width);
  for (const Gpu& gpu : look.gpus) {
    if (!lines.empty()) {
      lines.emplace_back();
    }
    append(lines, head_of(gpu, width, false));
    lines.push_back(titles_line(widths, width, nullptr));
    append(lines, rows_of(gpu, widths, width));
  }
  add_without_device(look, width, lines);
  return lines;
}

std::vector<Line> list(const Look& look, const Widths& widths, std::size_t width, bool brief) {
  std::vector<Line> lines;
  for (const Gpu& gpu : look.gpus) {
    append(lines, head_of(gpu, width, brief));
    append(lines, rows_of(gpu, widths, width));
  }
  add_without_device(look, width, lines);
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

}  // namespace cubfc::cli::top
