// One look (a snapshot) of the processes under cubfc, which `cubfc top` shows or writes. Knows
// nothing of terminals.
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
  const live::Process* process;  // one of Look::processes
  std::size_t place;             // the device's index in the process's figures
  figures::Sums sums;
  // Since the look before; nothing if the row was not there then.
  std::optional<double> allocations_per_second;
  std::optional<double> blocked;  // the share of the time in which frees waited for the device

  const figures::ProcessFigures& figures() const { return *process->figures; }
  const figures::DeviceFigures& device() const { return figures().devices[place]; }
};

// A device, which may have other numbers in other processes.
struct Gpu {
  std::int32_t number;  // in the first of its processes
  std::string name;
  std::uint64_t total_bytes;
  std::vector<Row> rows;  // at least one
  // The sums over all visible processes under cubfc, those that `pids` leaves out included.
  std::uint64_t in_use = 0;
  std::uint64_t taken = 0;
  // The GPU's memory with what others hold; if it is not known, `unknown` says why.
  std::optional<live::GpuMemory> memory = {};
  std::string unknown = {};
};

struct Look {
  std::chrono::steady_clock::time_point when;
  std::uint64_t unix_ns;
  live::Processes processes;
  std::vector<live::Process> others;  // the processes that `pids` leaves out
  std::vector<Gpu> gpus;              // by number
  bool has_users = false;             // there are several users, or root looks
};

// Looks at the processes `pids`; at all if it is empty. `before`: the look before, or NULL.
// `asker`: tells what others hold of the GPUs; waits for its answer no longer than `patience`.
Look take_look(const std::vector<int>& pids, const Look* before, live::GpuMemoryAsker& asker,
               std::chrono::milliseconds patience);
// As take_look(), for processes that have been read already, and without asking what others hold.
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

// Sorts each GPU's rows. Numbers: the largest first. Notes: in the order of Concern, the most
// urgent first. Process ids, users, groups and programs: ascending. Rows that are equal keep their
// order.
void sort(Look& look, const Order& order);

}  // namespace cubfc::cli::top
