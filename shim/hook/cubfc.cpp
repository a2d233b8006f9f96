// The C functions by which a program may ask cubfc for something: cubfc.h.
#include "shim/cubfc.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>

#include "shim/loader/no_cancellation.h"
#include "shim/process.h"
#include "shim/record/trace_recorder.h"
#include "shim/sleep/sleeper.h"
#include "shim/source/unused_memory.h"
#include "shim/tell/figures.h"
#include "shim/tell/summary.h"

namespace {

using cubfc::Process;
using cubfc::Sleeper;
using cubfc::figures::DeviceFigures;
using cubfc::figures::read;

// nullptr if there are no figures: the Process has not been made, or is the parent's. A program
// that asks for figures is no reason to make it.
Process* process_with_figures() {
  Process* const process = Process::existing();
  return process == nullptr || process->is_in_child() ? nullptr : process;
}

cubfc_device_stats stats_of(const DeviceFigures& device, const cubfc::figures::Sums& sums) {
  cubfc_device_stats stats{};
  stats.total_bytes = device.total_bytes;
  stats.bytes_limit = read(device.limit_bytes);
  stats.bytes_in_use = sums.in_use;
  stats.peak_bytes_in_use = read(device.peak_bytes_in_use);
  stats.bytes_waiting = sums.waiting;
  stats.bytes_idle = cubfc::figures::idle_bytes(sums);
  stats.largest_free_block_bytes = sums.largest_free;
  stats.bytes_reserved = read(device.bytes_reserved);
  stats.bytes_taken = read(device.bytes_taken);
  stats.peak_bytes_taken = read(device.peak_bytes_taken);
  stats.num_allocs = sums.allocations;
  stats.num_frees = sums.frees;
  stats.num_failures = sums.failures;
  stats.num_refused = read(device.refused);
  stats.driver_calls = read(device.driver_calls);
  stats.num_free_waits = read(device.free_waits);
  stats.ns_free_waits = read(device.free_waits_ns);
  stats.bytes_asleep = read(device.bytes_asleep);
  return stats;
}

int sleep_or_wake(Sleeper::Outcome (Sleeper::*what)() noexcept, char* text,
                  unsigned long long bytes) noexcept {
  Process* const process = Process::active();
  const cubfc::NoCancellation no_cancellation;
  const Sleeper::Outcome outcome =
      process == nullptr ? Sleeper::Outcome{} : (process->sleeper().*what)();
  if (bytes > 0) {
    text[outcome.text.copy(text, bytes - 1)] = '\0';
  }
  return outcome.is_done ? 1 : 0;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const char* cubfc_version() {
  return CUBFC_VERSION;
}

__attribute__((visibility("default"))) int cubfc_limit(const char* limit) {
  const cubfc::NoCancellation no_cancellation;
  return Process::set_limit(limit);
}

__attribute__((visibility("default"))) unsigned long long cubfc_trim(unsigned flags) {
  Process* process = Process::active();
  const cubfc::NoCancellation no_cancellation;
  const bool preallocated = (flags & CUBFC_TRIM_PREALLOCATED) != 0;
  return process == nullptr ? 0 : process->unused().trim(preallocated);
}

__attribute__((visibility("default"))) int cubfc_sleep(char* text, unsigned long long bytes) {
  return sleep_or_wake(&Sleeper::sleep, text, bytes);
}

__attribute__((visibility("default"))) int cubfc_wake(char* text, unsigned long long bytes) {
  return sleep_or_wake(&Sleeper::wake, text, bytes);
}

__attribute__((visibility("default"))) int cubfc_flush() {
  Process* const process = Process::active();
  const cubfc::NoCancellation no_cancellation;
  if (process == nullptr || process->trace() == nullptr) {
    return 0;
  }
  process->trace()->flush();
  return 1;
}

__attribute__((visibility("default"))) int cubfc_stats(int device, cubfc_device_stats* stats) {
  const cubfc::NoCancellation no_cancellation;
  Process* const process = process_with_figures();
  if (process == nullptr || stats == nullptr || stats->struct_bytes < sizeof stats->struct_bytes) {
    return 0;
  }
  process->refresh_figures();
  const cubfc::figures::ProcessFigures& all = process->figures();
  for (std::size_t i = 0; i < all.devices.size(); ++i) {
    const DeviceFigures& each = all.devices[i];
    if (each.ready.load(std::memory_order_acquire) != 1 || each.number != device) {
      continue;
    }
    cubfc_device_stats known = stats_of(each, cubfc::figures::sum_of(all, i));
    const std::size_t room = stats->struct_bytes;
    known.struct_bytes = std::min(room, sizeof known);
    std::memcpy(stats, &known, known.struct_bytes);
    std::memset(reinterpret_cast<char*>(stats) + known.struct_bytes, 0, room - known.struct_bytes);
    return 1;
  }
  return 0;
}

__attribute__((visibility("default"))) unsigned long long cubfc_dump(char* text,
                                                                     unsigned long long bytes) {
  const cubfc::NoCancellation no_cancellation;
  Process* const process = process_with_figures();
  if (process == nullptr) {
    return 0;
  }
  try {
    const std::string all =
        cubfc::summary_json({process->figures(), process->time_in_calls(), false});
    if (bytes > 0) {
      text[all.copy(text, bytes - 1)] = '\0';
    }
    return all.size();
  } catch (const std::bad_alloc&) {
    return 0;
  }
}

}  // extern "C"
