#include "cli/fit/need.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "cli/recordings/file_name.h"
#include "cli/recordings/open_recording.h"
#include "cli/recordings/tensors.h"
#include "cli/replay/fit.h"
#include "cli/report/figures.h"
#include "cli/report/forms.h"
#include "cli/report/history.h"
#include "cli/report/lines.h"
#include "cli/report/output.h"

namespace cubfc::cli::fit {
namespace {

using recordings::Recording;

// Whether a stand-in of NVIDIA's libraries has asked for the memory. What the real library takes is
// a part of Gpu::context_bytes instead.
bool is_of_library(std::string_view caller) {
  const std::string_view name = recordings::file_name(caller);
  return name.starts_with("libcublas") || name.starts_with("libcudnn") ||
         name.starts_with("libcusolver") || name.starts_with("libcusparse");
}

void leave_out_libraries(Recording& recording) {
  std::set<std::pair<std::uint32_t, std::uint64_t>> theirs;  // live blocks by place and address
  std::erase_if(recording.events, [&](const recordings::Event& event) {
    const auto key = std::pair(event.place, event.address);
    if (event.kind == trace::Kind::kAllocate && event.caller < recording.callers.size() &&
        is_of_library(recording.callers[event.caller])) {
      theirs.insert(key);
      return true;
    }
    return event.kind == trace::Kind::kFree && theirs.erase(key) > 0;
  });
}

std::optional<std::uint64_t> least(const Recording& recording, const replay::Workload& workload,
                                   config::Allocator allocator) {
  replay::Conditions conditions;
  conditions.policy.allocator.value = allocator;
  return replay::least_limit(recording, workload, conditions, {});
}

struct Looked {
  report::History history;
  report::Figures figures;
};

Looked look_at(const Recording& recording) {
  Looked looked{report::history_of(recording), {}};
  looked.figures = report::figures_of(recording, looked.history);
  return looked;
}

// Sets the lines that held most at the peak, and the line whose request was the last before it.
void add_lines(const Recording& recording, const Looked& looked, Need& need) {
  const report::CodeLines lines = report::lines_of(recording, looked.history, looked.figures);
  if (!lines.are_known()) {
    return;
  }
  constexpr std::size_t kMostLines = 5;
  for (const std::uint32_t line : lines.by_peak) {
    if (need.holders.size() < kMostLines && lines.held[line].at_peak.bytes > 0) {
      need.holders.push_back({lines.texts[line], lines.held[line].at_peak.bytes});
    }
  }
  const std::uint32_t peak = looked.figures.whole.in_use.event;
  for (std::size_t n = 0; n < looked.history.blocks.size(); ++n) {
    if (looked.history.blocks[n].begin == peak) {
      const std::uint32_t line = lines.of_block(looked.history, n);
      need.line = line == report::kNone ? "" : lines.texts[line];
    }
  }
}

struct OfProcess {
  Need need;
  std::set<std::uint32_t> devices;  // on which it allocated
};

OfProcess need_of_trace(const std::string& path) {
  Recording recording = recordings::open_recording(path);
  leave_out_libraries(recording);
  OfProcess process;
  Need& need = process.need;
  need.trace = path;
  for (const recordings::Event& event : recording.events) {
    if (event.kind == trace::Kind::kAllocate && event.place < recording.places.size()) {
      process.devices.insert(recording.places[event.place].device);
    }
  }
  {
    Recording segments = recording;
    recordings::leave_out_tensors(segments);
    const Looked looked = look_at(segments);
    need.device = looked.figures.whole.in_use.bytes;
    need.ran_out = !looked.figures.failures.empty();
  }
  recordings::show_tensors(recording);
  const Looked looked = look_at(recording);
  need.allocated = looked.figures.whole.in_use.bytes;
  const std::uint32_t peak = looked.figures.whole.in_use.event;
  if (peak != report::kNever && peak < looked.history.times_ns.size()) {
    need.peak_ns = looked.history.times_ns[peak];
  }
  add_lines(recording, looked, need);
  const replay::Workload workload = replay::make_workload(recording, replay::Requests::kBlocks);
  need.bfc = least(recording, workload, config::Allocator::kBfc);
  need.vmm = least(recording, workload, config::Allocator::kVmm);
  return process;
}

bool share_a_device(const OfProcess& one, const OfProcess& other) {
  return std::ranges::any_of(one.devices,
                             [&](std::uint32_t device) { return other.devices.contains(device); });
}

}  // namespace

std::uint64_t recorded_peak(const std::string& path) {
  Recording recording = recordings::open_recording(path);
  recordings::show_tensors(recording);
  return look_at(recording).figures.whole.in_use.bytes;
}

void write_page_of(const Need& need, const std::string& path) {
  Recording recording = recordings::open_recording(need.trace);
  leave_out_libraries(recording);
  recordings::show_tensors(recording);
  const Looked looked = look_at(recording);
  const report::CodeLines lines = report::lines_of(recording, looked.history, looked.figures);
  report::Output output(path, {need.trace});
  report::write_page({recording, looked.history, looked.figures, lines}, output);
  output.finish();
}

std::optional<Need> need_of(const Run& run) {
  std::vector<OfProcess> all;
  for (const std::string& trace : run.traces) {
    OfProcess process = need_of_trace(trace);
    if (process.need.device > 0 || process.need.ran_out) {
      all.push_back(std::move(process));
    }
  }
  if (all.empty()) {
    return std::nullopt;
  }
  const auto largest = std::ranges::max_element(
      all, {}, [](const OfProcess& process) { return process.need.device; });
  Need most = largest->need;
  for (const OfProcess& other : all) {
    most.ran_out = most.ran_out || other.need.ran_out;
    if (&other != &*largest && share_a_device(*largest, other)) {
      most.beside += other.need.device;
      ++most.processes_beside;
    }
  }
  auto notes = std::ranges::find(run.processes, pid_in(most.trace), &ProcessNotes::pid);
  if (notes == run.processes.end()) {
    notes = std::ranges::max_element(run.processes, {}, &ProcessNotes::reserved);
  }
  if (notes != run.processes.end()) {
    most.reserved = notes->reserved;
    most.process = static_cast<std::size_t>(notes - run.processes.begin());
  }
  return most;
}

}  // namespace cubfc::cli::fit
