#include "shim/tell/summary.h"

#include <algorithm>
#include <array>
#include <vector>

#include "shim/tell/caller_list.h"
#include "shim/tell/format.h"
#include "shim/tell/json.h"

namespace cubfc {
namespace {

using figures::DeviceFigures;
using figures::ProcessFigures;
using figures::read;
using figures::Sums;

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) {
      text += ',';
    }
    text += digits[i];
  }
  return text;
}

std::string counted(std::uint64_t number, const char* what) {
  return grouped(number) + " " + what + (number == 1 ? "" : "s");
}

// A kind of memory in words for people, and as the JSON's field is called.
struct MemoryName {
  const char* words;
  const char* field;
};
constexpr std::array<MemoryName, trace::kMemories> kMemoryNames{
    {{"in the arena", "arena"},
     {"straight from the driver", "direct"},
     {"from cubfc's pool", "own_pool"},
     {"from pools", "pool"},
     {"managed", "managed"},
     {"by cuMemCreate", "mapped"},
     {"in arrays", "array"}}};

template <typename Do>
void for_each_device(const ProcessFigures& process, Do what) {
  for (std::size_t i = 0; i < process.devices.size(); ++i) {
    if (process.devices[i].ready.load(std::memory_order_acquire) == 1) {
      what(process.devices[i], figures::sum_of(process, i));
    }
  }
}

// "4.00 GiB in the arena, 1.00 GiB managed": at the peak; empty where it was all in the arena.
std::string kinds_at_peak(const DeviceFigures& device) {
  std::string text;
  for (std::size_t i = 0; i < kMemoryNames.size(); ++i) {
    if (const std::uint64_t bytes = read(device.at_peak[i]); bytes > 0) {
      text += format("{}{} {}", text.empty() ? "" : ", ", bytes_text(bytes), kMemoryNames[i].words);
    }
  }
  return read(device.at_peak[0]) == read(device.peak_bytes_in_use) ? "" : text;
}

void add_lines_of(const ProcessFigures& process, const DeviceFigures& device, const Sums& sums,
                  std::string_view each, std::vector<std::string>& lines) {
  std::string costs = read(device.driver_calls) == 0
                          ? std::string()
                          : counted(read(device.driver_calls), "driver call");
  costs += costs.empty() || each.empty() ? "" : "; ";
  costs += each;
  lines.push_back(
      format("GPU {}: peak {} of {}, {}{}, {} failed", device.number,
             bytes_text(read(device.peak_bytes_in_use)), bytes_text(read(device.peak_bytes_taken)),
             counted(sums.allocations, "allocation"), costs.empty() ? costs : " (" + costs + ")",
             grouped(std::max(sums.failures, read(device.refused)))));
  if (const std::string kinds = kinds_at_peak(device); !kinds.empty()) {
    lines.push_back(format("GPU {}: at the peak by kind: {}", device.number, kinds));
  }
  const auto callers = figures::callers_of(process, sums, figures::When::kAtPeak);
  if (!callers.empty()) {
    lines.push_back(
        format("GPU {}: at the peak by caller: {}", device.number, figures::listed(callers)));
  }
}

std::string device_json(const ProcessFigures& process, const DeviceFigures& device,
                        const Sums& sums) {
  json::Object memory;
  for (std::size_t i = 0; i < kMemoryNames.size(); ++i) {
    memory.raw(kMemoryNames[i].field,
               json::Object()
                   .number("bytes_in_use", sums.of[i])
                   .number("peak_bytes_in_use", read(device.of[i].peak_bytes_in_use))
                   .number("at_peak", read(device.at_peak[i]))
                   .whole());
  }
  std::vector<std::string> callers;
  // A file of figures that is damaged, or of another program, may have any number there.
  const std::size_t count = std::min<std::size_t>(
      process.num_callers.load(std::memory_order_acquire), process.callers.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (sums.by_caller[i].now + sums.by_caller[i].at_peak > 0) {
      callers.push_back(json::Object()
                            .text("name", process.callers[i].get())
                            .number("bytes_in_use", sums.by_caller[i].now)
                            .number("at_peak", sums.by_caller[i].at_peak)
                            .whole());
    }
  }
  const std::uint64_t limit = read(device.limit_bytes);
  const bool limited = limit != ~std::uint64_t{0};
  return json::Object()
      .number("number", static_cast<std::uint64_t>(device.number))
      .text("uuid", figures::uuid_text(device))
      .text("name", device.name.get())
      .number("total_bytes", device.total_bytes)
      .raw("bytes_limit", limited ? std::to_string(limit) : "null")
      .text("limit_origin", figures::limit_origin(device))
      .raw("group", device.group.get().empty()
                        ? "null"
                        : json::Object()
                              .text("name", device.group.get())
                              .number("limit_bytes", read(device.group_limit_bytes))
                              .whole())
      .text("allocator", device.allocator.get())
      .text("free", device.free_mode.get())
      .number("bytes_in_use", sums.in_use)
      .number("peak_bytes_in_use", read(device.peak_bytes_in_use))
      .number("bytes_waiting", sums.waiting)
      .number("bytes_idle", figures::idle_bytes(sums))
      .number("bytes_reserved", read(device.bytes_reserved))
      .number("bytes_asleep", read(device.bytes_asleep))
      .number("bytes_taken", read(device.bytes_taken))
      .number("peak_bytes_taken", read(device.peak_bytes_taken))
      .number("num_allocs", sums.allocations)
      .number("num_frees", sums.frees)
      .number("num_failures", sums.failures)
      .number("num_refused", read(device.refused))
      .number("driver_calls", read(device.driver_calls))
      .number("num_free_waits", read(device.free_waits))
      .number("ns_free_waits", read(device.free_waits_ns))
      .raw("memory", memory.whole())
      .raw("callers", json::list_of(callers))
      .whole();
}

std::uint64_t allocations_of(const ProcessFigures& process) {
  std::uint64_t allocations = 0;
  for_each_device(process, [&](const DeviceFigures& /*device*/, const Sums& sums) {
    allocations += sums.allocations;
  });
  return allocations;
}

}  // namespace

std::vector<std::string> summary_lines(const Summary& summary) {
  const std::uint64_t operations = allocations_of(summary.process);
  const std::string each =
      summary.in_calls.count() == 0 || operations == 0
          ? ""
          : format("an allocation and its free took {:.1f} us, the wait for the GPU included",
                   static_cast<double>(summary.in_calls.count()) / 1000.0 /
                       static_cast<double>(operations));
  std::vector<std::string> lines;
  std::chrono::nanoseconds waited{};
  for_each_device(summary.process, [&](const DeviceFigures& device, const Sums& sums) {
    if (sums.allocations + sums.failures + read(device.refused) > 0) {
      add_lines_of(summary.process, device, sums, each, lines);
    }
    waited += std::chrono::nanoseconds(read(device.free_waits_ns));
  });
  if (waited >= std::chrono::seconds(1)) {
    lines.push_back(format(
        "frees waited {:.0f} s for the device; CUBFC_FREE=deferred avoids that if the program "
        "does not use cudaFree as a barrier",
        std::chrono::duration<double>(waited).count()));
  }
  return lines;
}

std::string summary_json(const Summary& summary) {
  const ProcessFigures& process = summary.process;
  std::vector<std::string> devices;
  for_each_device(process, [&](const DeviceFigures& device, const Sums& sums) {
    devices.push_back(device_json(process, device, sums));
  });
  json::Object all;
  all.text("version", process.version.get())
      .number("pid", static_cast<std::uint64_t>(process.pid))
      .text("host", process.host.get())
      .text("program", process.program.get())
      .text("labels", process.labels.get())
      .number("start_unix_ns", process.start_unix_ns)
      .raw("ended", summary.is_end ? "true" : "false")
      .raw("devices", json::list_of(devices));
  if (summary.in_calls.count() > 0) {
    all.number("ns_in_calls", static_cast<std::uint64_t>(summary.in_calls.count()));
  }
  return all.whole() + "\n";
}

}  // namespace cubfc
