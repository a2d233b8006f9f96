#include "cli/top/attention.h"

#include <algorithm>

#include "cli/report/wording.h"

namespace cubfc::cli::top {
namespace {

// The shares from which on a concern applies. Idle bytes are compared with the GPU's total, since
// others could have them. Below a twentieth of that total, their fragmentation does not matter.
// Reserved bytes are no concern: they go to processes that ask for them, or a setting has asked to
// hold them.
constexpr double kNearLimit = 0.9;
constexpr double kFragmentation = 0.5;
constexpr double kIdleThatMatters = 0.05;
constexpr double kIdleOfGpu = 0.1;

double share_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

bool applies(Concern concern, const Row& row) {
  const figures::DeviceFigures& device = row.device();
  const std::uint64_t idle = figures::idle_bytes(row.sums);
  switch (concern) {
    case Concern::kAsleep:
      return figures::read(device.bytes_asleep) > 0;
    case Concern::kNearLimit:
      return is_near(row.sums.in_use, figures::read(device.limit_bytes));
    case Concern::kRefused:
      return figures::read(device.refused) > 0;
    case Concern::kFragmented:  // not for arenas without blocks: all of their memory can go back
      return row.sums.of[static_cast<std::size_t>(trace::Memory::kArena)] > 0 &&
             figures::fragmentation(row.sums) >= kFragmentation &&
             share_of(idle, device.total_bytes) >= kIdleThatMatters;
    case Concern::kIdle:
      return idle > row.sums.in_use && share_of(idle, device.total_bytes) >= kIdleOfGpu;
  }
  return false;
}

}  // namespace

bool is_near(std::uint64_t in_use, std::uint64_t limit) {
  return share_of(in_use, limit) >= kNearLimit;
}

std::vector<Concern> concerns_of(const Row& row) {
  std::vector<Concern> concerns;
  for (const Concern each : {Concern::kAsleep, Concern::kNearLimit, Concern::kRefused,
                             Concern::kFragmented, Concern::kIdle}) {
    if (applies(each, row)) {
      concerns.push_back(each);
    }
  }
  return concerns;
}

std::string_view note_of(Concern concern) {
  switch (concern) {
    case Concern::kAsleep:
      return "asleep";
    case Concern::kNearLimit:
      return "near limit";
    case Concern::kRefused:
      return "refused";
    case Concern::kFragmented:
      return "fragmented";
    case Concern::kIdle:
      return "much idle";
  }
  return "";
}

std::string explain(Concern concern, const Row& row) {
  const figures::DeviceFigures& device = row.device();
  switch (concern) {
    case Concern::kAsleep:
      return report::bytes_text(figures::read(device.bytes_asleep)) +
             " of its memory lie on the host until it needs them (`cubfc wake` brings them back)";
    case Concern::kNearLimit:
      return report::share_text(row.sums.in_use, figures::read(device.limit_bytes)) +
             " of its limit is in use";
    case Concern::kRefused: {
      const std::uint64_t count = figures::read(device.refused);
      return report::count_text(count) + (count == 1 ? " request has" : " requests have") +
             " failed for lack of memory, the last one for " +
             report::bytes_text(figures::read(device.last_refused_bytes));
    }
    case Concern::kFragmented:
      return "of " + report::bytes_text(figures::idle_bytes(row.sums)) +
             " idle no request could have more than " + report::bytes_text(row.sums.largest_free) +
             " in one piece (CUBFC_ALLOCATOR=vmm heals fragmentation)";
    case Concern::kIdle:
      return report::bytes_text(figures::idle_bytes(row.sums)) +
             " are held and used by no block (`cubfc trim` asks for them)";
  }
  return "";
}

Key column_of(Concern concern) {
  switch (concern) {
    case Concern::kAsleep:
      return Key::kTaken;
    case Concern::kNearLimit:
      return Key::kInUse;
    case Concern::kRefused:
      return Key::kRefused;
    case Concern::kFragmented:
      return Key::kFragmentation;
    case Concern::kIdle:
      return Key::kIdle;
  }
  return Key::kNote;
}

Style style_of(Concern concern) {
  return concern == Concern::kNearLimit || concern == Concern::kRefused ? Style::kAlarm
                                                                        : Style::kWarning;
}

}  // namespace cubfc::cli::top
