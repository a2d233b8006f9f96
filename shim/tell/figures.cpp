#include "shim/tell/figures.h"

#include <algorithm>

namespace cubfc::figures {

// The group's limit may be the least by now, although another one was at first.
std::string_view limit_origin(const DeviceFigures& device) noexcept {
  const bool is_of_group =
      !device.group.get().empty() && read(device.limit_bytes) == read(device.group_limit_bytes);
  return is_of_group ? device.group_limit_origin.get() : device.limit_origin.get();
}

std::string uuid_text(const DeviceFigures& device) {
  if (std::ranges::all_of(device.uuid, [](unsigned char byte) { return byte == 0; })) {
    return {};
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < device.uuid.size(); ++i) {
    text += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    text += kDigits[device.uuid[i] / 16];
    text += kDigits[device.uuid[i] % 16];
  }
  return text;
}

Sums sum_of(const ProcessFigures& process, std::size_t device) noexcept {
  const DeviceFigures& of_device = process.devices[device];
  Sums sums;
  for (std::size_t memory = 0; memory < of_device.of.size(); ++memory) {
    const MemoryFigures& of = of_device.of[memory];
    sums.of[memory] = read(of.bytes_in_use);
    sums.allocations += read(of.num_allocs);
    sums.frees += read(of.num_frees);
    sums.failures += read(of.num_failures);
  }
  const std::uint64_t peaks = read(of_device.peaks);
  const auto add_callers = [&](const auto& callers, std::uint64_t unit_bytes) {
    for (std::size_t i = 0; i < callers.size(); ++i) {
      sums.by_caller[i].now += read(callers[i].has) * unit_bytes;
      sums.by_caller[i].at_peak += callers[i].at_peak(peaks) * unit_bytes;
    }
  };
  add_callers(of_device.callers, 1);
  for (const ArenaFigures& each : process.arenas) {
    if (each.device.load(std::memory_order_acquire) != device + 1) {
      continue;
    }
    const arena::Figures& figures = each.figures;
    sums.of[static_cast<std::size_t>(trace::Memory::kArena)] += figures.bytes_in_use();
    sums.waiting += figures.bytes_retired();
    sums.allocations += figures.num_allocs();
    sums.frees += read(figures.num_frees);
    sums.failures += read(figures.num_failures);
    sums.arena_bytes += read(figures.pool_bytes);
    sums.usable_bytes += read(figures.usable_bytes);
    sums.largest_free = std::max(sums.largest_free, read(figures.largest_free_block_bytes));
    add_callers(figures.callers, arena::kGranuleBytes);
  }
  for (const std::uint64_t bytes : sums.of) {
    sums.in_use += bytes;
  }
  return sums;
}

std::uint64_t idle_bytes(const Sums& sums) noexcept {
  const std::uint64_t in_use = sums.of[static_cast<std::size_t>(trace::Memory::kArena)];
  return sums.usable_bytes - std::min(sums.usable_bytes, in_use);
}

double fragmentation(const Sums& sums) noexcept {
  const std::uint64_t idle = idle_bytes(sums);
  return idle == 0 ? 0
                   : 1 - static_cast<double>(std::min(sums.largest_free, idle)) /
                             static_cast<double>(idle);
}

std::vector<CallerPart> callers_of(const ProcessFigures& process, const Sums& sums, When when) {
  const std::size_t count =
      std::min<std::size_t>(process.num_callers.load(std::memory_order_acquire), arena::kCallers);
  std::vector<CallerPart> parts;
  if (count == 1) {
    return parts;  // objects are not told apart
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Sums::Caller& caller = sums.by_caller[i];
    if (const std::uint64_t bytes = when == When::kNow ? caller.now : caller.at_peak; bytes > 0) {
      parts.push_back({process.callers[i].get(), bytes});
    }
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const CallerPart& a, const CallerPart& b) { return a.bytes > b.bytes; });
  return parts;
}

}  // namespace cubfc::figures
