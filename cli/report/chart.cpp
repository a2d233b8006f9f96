#include "cli/report/chart.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/report/sweep.h"
#include "cli/report/wording.h"

namespace cubfc::report {
namespace {

constexpr std::size_t kColumns = 66;
constexpr std::size_t kLines = 10;
constexpr std::size_t kLabel = 11;

// Divides the events into columns of equal time; or of equally many events, if there are no times,
// all are the same, or most of the time is one pause.
class Columns {
 public:
  Columns(const History& history, bool has_times) {
    const std::vector<std::uint64_t>& times = history.times_ns;
    is_of_time_ = has_times && times.back() > times.front() && !history.is_mostly_a_pause();
    for (std::size_t n = 1; n <= kColumns; ++n) {
      std::size_t behind = (times.size() * n + kColumns - 1) / kColumns;
      if (is_of_time_) {
        const double share = static_cast<double>(n) / static_cast<double>(kColumns);
        const auto end = static_cast<std::uint64_t>(static_cast<double>(times.back()) * share);
        behind = n == kColumns
                     ? times.size()
                     : static_cast<std::size_t>(std::upper_bound(times.begin(), times.end(), end) -
                                                times.begin());
      }
      behind_.push_back(static_cast<std::uint32_t>(behind));
    }
  }
  bool is_of_time() const { return is_of_time_; }
  // By column: how many events are before its end.
  const std::vector<std::uint32_t>& behind() const { return behind_; }

 private:
  bool is_of_time_ = false;
  std::vector<std::uint32_t> behind_;
};

// The most that was in use in each column.
std::vector<std::uint64_t> in_use_by(const Columns& columns, const History& history) {
  std::vector<std::uint64_t> result;
  BlockSweep sweep{history};
  std::uint64_t now = 0;
  for (const std::uint32_t behind : columns.behind()) {
    std::uint64_t most = now;
    if (behind > 0) {
      sweep.forward_to(
          behind - 1,
          [&](std::uint32_t block) { most = std::max(most, now += history.blocks[block].held()); },
          [&](std::uint32_t block) { now -= history.blocks[block].held(); });
    }
    result.push_back(most);
  }
  return result;
}

// The most that was taken in each column.
std::vector<std::uint64_t> taken_by(const Columns& columns, const History& history) {
  std::vector<std::uint64_t> result;
  const std::vector<RegionChange> changes = region_changes(history);
  std::size_t next = 0;
  std::uint64_t now = 0;
  for (const std::uint32_t behind : columns.behind()) {
    std::uint64_t most = now;
    for (; next < changes.size() && changes[next].event < behind; ++next) {
      const std::uint64_t bytes = history.regions[changes[next].region].bytes;
      now = changes[next].begins ? now + bytes : now - bytes;
      most = std::max(most, now);
    }
    result.push_back(most);
  }
  return result;
}

}  // namespace

TextTable chart_of(const Told& told) {
  TextTable chart;
  const std::uint64_t peak = told.figures.whole.in_use.bytes;
  if (peak == 0 || told.recording.is_state) {
    return chart;
  }
  const Columns columns(told.history, told.recording.has_times);
  const std::vector<std::uint64_t> in_use = in_use_by(columns, told.history);
  std::vector<std::uint64_t> taken = taken_by(columns, told.history);
  // The chart is there to show what is in use. What is taken may be so much more that it would make
  // that part of the chart flat; then it is left out.
  const std::uint64_t most_taken = told.figures.whole.taken.bytes;
  const bool shows_taken = most_taken <= peak + peak / 2;
  const std::uint64_t most = shows_taken ? std::max(peak, most_taken) : peak;
  if (!shows_taken) {
    std::ranges::fill(taken, 0U);
  }
  chart.title = std::string(columns.is_of_time() ? "Over time" : "Over the events") +
                " (# in use, " + (shows_taken ? ". taken from the device, " : "") + "^ the peak)";
  const auto height = [&](std::uint64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(most) * static_cast<double>(kLines);
  };
  for (std::size_t row = kLines; row > 0; --row) {
    const double middle = static_cast<double>(row) - 0.5;
    std::string cells;
    for (std::size_t n = 0; n < kColumns; ++n) {
      cells += height(in_use[n]) >= middle ? '#' : height(taken[n]) >= middle ? '.' : ' ';
    }
    const std::string label = row == kLines       ? bytes_text(most)
                              : row == kLines / 2 ? bytes_text(most / 2)
                                                  : "";
    chart.rows.push_back(right(label, kLabel) + " |" + cells);
  }
  std::string axis(kColumns, '-');
  const std::string end = clock_text(told.history.times_ns.back());
  if (columns.is_of_time() && end.size() < kColumns) {
    axis.replace(kColumns - end.size() - 1, end.size() + 1, " " + end);
  }
  chart.rows.push_back(right("0", kLabel) + " +" + axis);
  const auto peak_column = std::ranges::max_element(in_use) - in_use.begin();
  chart.rows.push_back(std::string(kLabel + 2 + static_cast<std::size_t>(peak_column), ' ') + "^");
  if (told.recording.has_times && told.history.is_mostly_a_pause()) {
    chart.rows.push_back("  not over time: the longest pause is " +
                         time_text(told.history.longest_pause_ns) + " of " +
                         time_text(told.history.times_ns.back()));
  }
  if (!shows_taken) {
    chart.rows.push_back("  above the chart: " + bytes_text(most_taken) +
                         " taken from the device, held ready or idle");
  }
  return chart;
}

}  // namespace cubfc::report
