#include "cli/replay/print.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "arena/budget.h"
#include "config/values.h"

namespace cubfc::replay {
namespace {

// "36.92 GiB".
std::string size(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) {
    value /= 1024;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits.at(unit));
}

// "12,665".
std::string count(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t end = digits.size(); end > 3; end -= 3) {
    digits.insert(end - 3, 1, ',');
  }
  return digits;
}

std::string counted(std::uint64_t number, const char* one, const char* many) {
  return count(number) + " " + (number == 1 ? one : many);
}

std::string line(const char* label, const std::string& text) {
  return fmt::format("{:<11}{}\n", label, text);
}

// Makes the text green or red on a terminal. The words are the same without the colour.
std::string verdict(bool good, const std::string& text, bool in_color) {
  return in_color ? fmt::format("\033[{}m{}\033[0m", good ? 32 : 31, text) : text;
}

double ratio(std::uint64_t bytes, std::uint64_t peak) {
  return peak == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(peak);
}

std::uint64_t peak_taken(const Outcome& outcome) {
  std::uint64_t most = 0;
  for (const PlayedDevice& device : outcome.devices) {
    most = std::max(most, device.peak_bytes);
  }
  return most;
}

std::string describe(const PlayedDevice& device) {
  std::string text = fmt::format("GPU {} of {} ({}), ", device.number, size(device.total_bytes),
                                 device.total_origin);
  text += device.limit_bytes == arena::Budget::kUnlimited ? "no limit"
                                                          : "limit " + size(device.limit_bytes);
  return text;
}

std::string describe(const OutOfMemory& failed) {
  std::string text = line(
      "",
      fmt::format("out of memory on GPU {} at operation {}, event {}, {:.6f} s after the start{}",
                  failed.device, count(failed.operation), count(failed.event),
                  static_cast<double>(failed.time_ns) / 1e9,
                  failed.was_recorded ? ", as when it was recorded" : ""));
  text += line("  asked",
               fmt::format("{} ({} bytes)", size(failed.asked_bytes), count(failed.asked_bytes)));
  text +=
      line("  arena",
           fmt::format("{} in use + {} free, largest free block {}{}", size(failed.in_use_bytes),
                       size(failed.free_bytes), size(failed.largest_free_bytes),
                       failed.waiting_bytes == 0
                           ? ""
                           : "; of what is in use, " + size(failed.waiting_bytes) + " was freed"));
  if (failed.limit_left_bytes != kPlenty) {
    text += line("  limit", size(failed.limit_left_bytes) + " left");
  }
  if (failed.device_free_bytes != kPlenty) {
    text += line("  device", size(failed.device_free_bytes) + " free");
  }
  return text + line("  cause", failed.cause);
}

std::string least_text(const Workload& workload, const Result& result) {
  if (!result.least_limit) {
    return "none up to four times the peak";
  }
  return fmt::format("{} ({} bytes), {:.4f} of the peak", size(*result.least_limit),
                     count(*result.least_limit),
                     ratio(*result.least_limit, workload.largest_peak_bytes()));
}

}  // namespace

std::string describe(const recordings::Recording& recording, const Workload& workload) {
  std::string text = line(
      "recording",
      fmt::format("{}: {}, {}, peak {} in {}", config::shown(recording.path, 200), recording.format,
                  counted(workload.operations.size(), "operation", "operations"),
                  size(workload.peak_bytes), counted(workload.peak_blocks, "block", "blocks")));
  const auto note = [&](std::uint64_t number, const std::string& what) {
    text += number == 0 ? "" : line("note", what);
  };
  note(recording.is_state ? 1 : 0,
       "nothing was recorded as it happened: the blocks are asked for by their addresses");
  note(workload.failures,
       counted(workload.failures, "request", "requests") + " failed when it was recorded");
  note(workload.unknown_frees, counted(workload.unknown_frees, "free is", "frees are") +
                                   " of what was there before, and left out");
  note(workload.missing_frees,
       counted(workload.missing_frees, "block", "blocks") +
           " must have been freed without a word: another one is at the same address later");
  note(recording.reached_limit ? 1 : 0,
       "the file had reached its limit (CUBFC_TRACE_LIMIT): what came after is not in it");
  note(recording.is_cut ? 1 : 0,
       "the file is not whole: what came after the last event is not in it");
  return text;
}

std::string describe(const Workload& workload, const Result& result, bool in_color) {
  std::string text = line("policy", result.name);
  for (const PlayedDevice& device : result.outcome.devices) {
    text += line("", describe(device));
  }
  const Outcome& outcome = result.outcome;
  std::string taken = fmt::format("at most {} taken, {}", size(peak_taken(outcome)),
                                  counted(outcome.driver_calls, "driver call", "driver calls"));
  if (outcome.waits > 0) {
    taken += ", " + counted(outcome.waits, "wait", "waits") + " for freed memory";
  }
  text += line("fits", verdict(outcome.fits(), outcome.fits() ? "yes" : "no", in_color) +
                           (outcome.fits() ? ": " + taken : ""));
  if (!outcome.fits()) {
    text += describe(outcome.first[0]);
  }
  if (result.looked_for_least) {
    text += line("least", least_text(workload, result));
  }
  return text;
}

std::string table(const Workload& workload, const std::vector<Result>& results, bool in_color) {
  std::string text;
  for (const PlayedDevice& device : results[0].outcome.devices) {
    text += line("device", describe(device));
  }
  text += fmt::format("\n{:<24}{:>6}{:>15}{:>15}{:>9}{:>14}\n", "policy", "fits", "taken at most",
                      "least limit", "/ peak", "driver calls");
  for (const Result& result : results) {
    const bool fits = result.outcome.fits();
    const std::string word = fmt::format("{:>6}", fits ? "yes" : "no");
    text += fmt::format(
        "{:<24}{}{:>15}{:>15}{:>9}{:>14}\n", result.name, verdict(fits, word, in_color),
        fits ? size(peak_taken(result.outcome)) : "-",
        result.least_limit ? size(*result.least_limit) : "-",
        result.least_limit
            ? fmt::format("{:.4f}", ratio(*result.least_limit, workload.largest_peak_bytes()))
            : "-",
        fits ? count(result.outcome.driver_calls) : "-");
  }
  return text;
}

}  // namespace cubfc::replay
