#include "cli/top/json.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/json_text.h"
#include "cli/live/users.h"
#include "cli/report/program_name.h"
#include "cli/report/wording.h"

namespace cubfc::cli::top {
namespace {

using figures::read;
using nlohmann::ordered_json;

ordered_json text_of(std::string_view text) {
  return report::printable(text);
}

ordered_json or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json memory_of(const Row& row) {
  ordered_json all = ordered_json::object();
  for (std::size_t i = 0; i < row.sums.of.size(); ++i) {
    all[std::string(report::memory_key(static_cast<trace::Memory>(i)))] = {
        {"bytes_in_use", row.sums.of[i]},
        {"peak_bytes_in_use", read(row.device().of[i].peak_bytes_in_use)},
        {"at_peak", read(row.device().at_peak[i])}};
  }
  return all;
}

ordered_json list_of_callers(const Row& row) {
  const std::size_t count =
      std::min<std::size_t>(row.figures().num_callers.load(), row.sums.by_caller.size());
  ordered_json all = ordered_json::array();
  for (std::size_t i = 0; i < count; ++i) {
    const figures::Sums::Caller& caller = row.sums.by_caller[i];
    if (caller.now > 0 || caller.at_peak > 0) {
      all.push_back({{"name", text_of(row.figures().callers[i].get())},
                     {"bytes_in_use", caller.now},
                     {"at_peak", caller.at_peak}});
    }
  }
  return all;
}

ordered_json group_of(const figures::DeviceFigures& device) {
  return device.group.get().empty() ? ordered_json()
                                    : ordered_json{{"name", text_of(device.group.get())},
                                                   {"limit_bytes", read(device.group_limit_bytes)}};
}

ordered_json device_of(const Row& row) {
  const figures::DeviceFigures& device = row.device();
  const std::uint64_t limit = read(device.limit_bytes);
  const bool limited = limit != std::numeric_limits<std::uint64_t>::max();
  return {{"number", device.number},
          {"uuid", figures::uuid_text(device)},
          {"name", text_of(device.name.get())},
          {"total_bytes", device.total_bytes},
          {"bytes_limit", limited ? ordered_json(limit) : ordered_json()},
          {"limit_origin", text_of(figures::limit_origin(device))},
          {"group", group_of(device)},
          {"allocator", text_of(device.allocator.get())},
          {"free", text_of(device.free_mode.get())},
          {"bytes_in_use", row.sums.in_use},
          {"peak_bytes_in_use", read(device.peak_bytes_in_use)},
          {"bytes_waiting", row.sums.waiting},
          {"bytes_idle", figures::idle_bytes(row.sums)},
          {"largest_free_block_bytes", row.sums.largest_free},
          {"fragmentation", figures::fragmentation(row.sums)},
          {"bytes_reserved", read(device.bytes_reserved)},
          {"bytes_asleep", read(device.bytes_asleep)},
          {"bytes_taken", read(device.bytes_taken)},
          {"peak_bytes_taken", read(device.peak_bytes_taken)},
          {"num_allocs", row.sums.allocations},
          {"num_frees", row.sums.frees},
          {"num_failures", row.sums.failures},
          {"num_refused", read(device.refused)},
          {"allocs_per_second", or_null(row.allocations_per_second)},
          {"driver_calls", read(device.driver_calls)},
          {"num_free_waits", read(device.free_waits)},
          {"ns_free_waits", read(device.free_waits_ns)},
          {"blocked", or_null(row.blocked)},
          {"memory", memory_of(row)},
          {"callers", list_of_callers(row)}};
}

ordered_json gpu_of(const Gpu& gpu) {
  const auto of_all = [&](auto amount) {
    return gpu.memory ? ordered_json(amount(*gpu.memory)) : ordered_json();
  };
  return {{"number", gpu.number},
          {"uuid", figures::uuid_text(gpu.rows[0].device())},
          {"name", text_of(gpu.name)},
          {"total_bytes", gpu.total_bytes},
          {"bytes_in_use", gpu.in_use},
          {"bytes_taken", gpu.taken},
          {"bytes_others", of_all([&](const live::GpuMemory& memory) {
             return memory.used_bytes - std::min(memory.used_bytes, gpu.taken);
           })},
          {"bytes_free", of_all([](const live::GpuMemory& memory) {
             return memory.total_bytes - std::min(memory.total_bytes, memory.used_bytes);
           })},
          {"others_unknown", gpu.memory ? ordered_json() : text_of(gpu.unknown)}};
}

}  // namespace

std::string json(const Look& look) {
  ordered_json processes = ordered_json::array();
  for (const live::Process& process : look.processes.all) {
    ordered_json devices = ordered_json::array();
    for (const Gpu& gpu : look.gpus) {
      for (const Row& row : gpu.rows) {
        if (row.process == &process) {
          devices.push_back(device_of(row));
        }
      }
    }
    const figures::ProcessFigures& figures = *process.figures;
    processes.push_back({{"pid", figures.pid},
                         {"user", text_of(live::user_name(process.user))},
                         {"uid", process.user},
                         {"host", text_of(figures.host.get())},
                         {"program", text_of(figures.program.get())},
                         {"name", text_of(report::program_name(figures.program.get()))},
                         {"labels", text_of(figures.labels.get())},
                         {"version", text_of(figures.version.get())},
                         {"start_unix_ns", figures.start_unix_ns},
                         {"devices", std::move(devices)}});
  }
  ordered_json gpus = ordered_json::array();
  for (const Gpu& gpu : look.gpus) {
    gpus.push_back(gpu_of(gpu));
  }
  ordered_json unusable = ordered_json::array();
  for (const std::string& problem : look.processes.unusable) {
    unusable.push_back(text_of(problem));
  }
  const ordered_json all = {{"time_unix_ns", look.unix_ns},
                            {"gpus", std::move(gpus)},
                            {"processes", std::move(processes)},
                            {"unusable_files", std::move(unusable)}};
  return json_text(all) + "\n";
}

}  // namespace cubfc::cli::top
