// One look at the processes under cubfc: what `cubfc top` shows and writes of it. Knows nothing of
// terminals.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/live/gpu_memory.h"
#include "cli/live/processes.h"

namespace cubfc::cli::top {

// What one process has of one device.
struct Row {
  const live::Process* process;  // of the look
  std::size_t place;             // of the device in the process's figures
  figures::Sums sums;
  // Since the look before, if it was there then.
  std::optional<double> allocations_per_second;
  std::optional<double> blocked;  // time in which frees waited for the device, of all time

  const figures::ProcessFigures& figures() const { return *process->figures; }
  const figures::DeviceFigures& device() const { return figures().devices[place]; }
};

// A device, which may have other numbers in other processes.
struct Gpu {
  std::int32_t number;  // in the first of its processes
  std::string name;
  std::uint64_t total_bytes;
  std::vector<Row> rows;  // at least one
  // Of all processes under cubfc that are seen, also of those that are not looked at.
  std::uint64_t in_use = 0;
  std::uint64_t taken = 0;
  // With what others hold; else why that is not known.
  std::optional<live::GpuMemory> memory = {};
  std::string unknown = {};
};

struct Look {
  std::chrono::steady_clock::time_point when;
  std::uint64_t unix_ns;
  live::Processes processes;
  std::vector<live::Process> others;  // those that are not looked at
  std::vector<Gpu> gpus;              // by number
  bool has_users = false;             // whose each process is, is worth a column
};

// `pids`: of which processes; of all where there are none. `before`: the look before, or null.
// `asker`: tells what others hold, for which it is waited so long.
Look take_look(const std::vector<int>& pids, const Look* before, live::GpuMemoryAsker& asker,
               std::chrono::milliseconds patience);
// The same of processes that have been read, without what others hold.
Look look_at(live::Processes processes, std::chrono::steady_clock::time_point when,
             std::uint64_t unix_ns, const Look* before, const std::vector<int>& pids = {});

// What the rows can be sorted by, in the order of the table.
enum class Key {
  kPid,
  kUser,
  kInUse,
  kIdle,
  kReserved,
  kTaken,
  kPeak,
  kLimit,
  kFragmentation,
  kRate,
  kBlocked,
  kRefused,
  kWaiting,
  kNote,
  kGroup,
  kProgram
};
inline constexpr std::size_t kKeys = 16;

struct Order {
  Key key = Key::kInUse;
  bool reversed = false;
};

// The largest first, what needs a look soonest, but process ids, users, groups and programs in
// their own order. Rows that are alike stay in the order of process ids.
void sort(Look& look, const Order& order);

}  // namespace cubfc::cli::top
