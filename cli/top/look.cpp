#include "cli/top/look.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "cli/live/users.h"
#include "cli/report/program_name.h"
#include "cli/top/attention.h"

namespace cubfc::cli::top {
namespace {

using figures::read;

bool is_same_gpu(const Gpu& gpu, const figures::DeviceFigures& other) {
  const figures::DeviceFigures& one = gpu.rows[0].device();
  // GPUs without a UUID are the same if number, size and name are.
  const std::string id = figures::uuid_text(one);
  return id.empty() ? figures::uuid_text(other).empty() && one.number == other.number &&
                          one.total_bytes == other.total_bytes && one.name.get() == other.name.get()
                    : one.uuid == other.uuid;
}

void add(Look& look, const Row& row) {
  const figures::DeviceFigures& device = row.device();
  auto gpu =
      std::ranges::find_if(look.gpus, [&](const Gpu& each) { return is_same_gpu(each, device); });
  if (gpu == look.gpus.end()) {
    look.gpus.push_back({device.number, std::string(device.name.get()), device.total_bytes, {}});
    gpu = std::prev(look.gpus.end());
  }
  gpu->rows.push_back(row);
  gpu->in_use += row.sums.in_use;
  gpu->taken += read(device.bytes_taken);
}

// Adds to the GPUs what the processes in Look::others hold of them.
void add_others(Look& look) {
  for (const live::Process& process : look.others) {
    for (const std::size_t place : process.devices()) {
      const figures::DeviceFigures& device = process.figures->devices[place];
      const auto gpu = std::ranges::find_if(
          look.gpus, [&](const Gpu& each) { return is_same_gpu(each, device); });
      if (gpu != look.gpus.end()) {
        gpu->in_use += figures::sum_of(*process.figures, place).in_use;
        gpu->taken += read(device.bytes_taken);
      }
    }
  }
}

void ask_for_memory(Look& look, live::GpuMemoryAsker& asker, std::chrono::milliseconds patience) {
  std::vector<std::string> uuids;
  for (const Gpu& gpu : look.gpus) {
    if (std::string uuid = figures::uuid_text(gpu.rows[0].device()); !uuid.empty()) {
      uuids.push_back(std::move(uuid));
    }
  }
  const live::GpuMemories memories = asker.ask(uuids, patience);
  for (Gpu& gpu : look.gpus) {
    const std::string uuid = figures::uuid_text(gpu.rows[0].device());
    if (const auto found = memories.known.find(uuid); found != memories.known.end()) {
      gpu.memory = found->second;
    } else if (const auto why = memories.unknown.find(uuid); why != memories.unknown.end()) {
      gpu.unknown = why->second;
    } else {
      gpu.unknown = "it has no id";
    }
  }
}

const Row* row_before(const Look& before, const Row& row) {
  for (const Gpu& gpu : before.gpus) {
    for (const Row& each : gpu.rows) {
      if (each.place == row.place && each.process->path == row.process->path) {
        return &each;
      }
    }
  }
  return nullptr;
}

// Computes a row's rates since the look before, if it was there then.
void set_rates(Row& row, const Look& now, const Look* before) {
  const Row* const last = before == nullptr ? nullptr : row_before(*before, row);
  const double seconds =
      before == nullptr ? 0 : std::chrono::duration<double>(now.when - before->when).count();
  if (last == nullptr || seconds <= 0) {
    return;
  }
  const auto each_second = [seconds](std::uint64_t then, std::uint64_t since) {
    return static_cast<double>(since - std::min(then, since)) / seconds;
  };
  row.allocations_per_second = each_second(last->sums.allocations, row.sums.allocations);
  row.blocked =
      each_second(read(last->device().free_waits_ns), read(row.device().free_waits_ns)) / 1e9;
}

// For keys by which the largest comes first: what is compared.
double weight(const Row& row, Key key) {
  const figures::DeviceFigures& device = row.device();
  switch (key) {
    case Key::kInUse:
      return static_cast<double>(row.sums.in_use);
    case Key::kIdle:
      return static_cast<double>(figures::idle_bytes(row.sums));
    case Key::kReserved:
      return static_cast<double>(read(device.bytes_reserved));
    case Key::kTaken:
      return static_cast<double>(read(device.bytes_taken));
    case Key::kPeak:
      return static_cast<double>(read(device.peak_bytes_in_use));
    case Key::kLimit:
      return static_cast<double>(read(device.limit_bytes));
    case Key::kFragmentation:
      return figures::fragmentation(row.sums);
    case Key::kRate:
      return row.allocations_per_second.value_or(-1);
    case Key::kBlocked:
      return row.blocked.value_or(-1);
    case Key::kRefused:
      return static_cast<double>(read(device.refused));
    case Key::kWaiting:
      return static_cast<double>(row.sums.waiting);
    case Key::kNote: {
      const std::vector<Concern> concerns = concerns_of(row);
      return concerns.empty() ? -100 : -static_cast<double>(concerns[0]);
    }
    case Key::kPid:
    case Key::kUser:
    case Key::kGroup:
    case Key::kProgram:
      return 0;
  }
  return 0;
}

bool comes_before(const Row& one, const Row& other, Key key) {
  switch (key) {
    case Key::kPid:
      return one.figures().pid < other.figures().pid;
    case Key::kUser:
      return live::user_name(one.process->user) < live::user_name(other.process->user);
    case Key::kGroup:
      return one.device().group.get() < other.device().group.get();
    case Key::kProgram:
      return report::program_name(one.figures().program.get()) <
             report::program_name(other.figures().program.get());
    default:
      return weight(one, key) > weight(other, key);
  }
}

}  // namespace

Look look_at(live::Processes processes, std::chrono::steady_clock::time_point when,
             std::uint64_t unix_ns, const Look* before, const std::vector<int>& pids) {
  Look look{when, unix_ns, std::move(processes), {}, {}};
  std::vector<live::Process>& all = look.processes.all;
  if (!pids.empty()) {
    const auto unwanted =
        std::stable_partition(all.begin(), all.end(), [&](const live::Process& process) {
          return std::ranges::find(pids, process.figures->pid) != pids.end();
        });
    std::move(unwanted, all.end(), std::back_inserter(look.others));
    all.erase(unwanted, all.end());
  }
  look.has_users = std::ranges::any_of(
      all, [&](const live::Process& process) { return process.user != all[0].user; });
  for (const live::Process& process : look.processes.all) {
    for (const std::size_t place : process.devices()) {
      Row row{&process, place, figures::sum_of(*process.figures, place), {}, {}};
      set_rates(row, look, before);
      add(look, row);
    }
  }
  std::ranges::stable_sort(look.gpus, [](const Gpu& one, const Gpu& other) {
    return std::tie(one.number, one.name) < std::tie(other.number, other.name);
  });
  add_others(look);
  return look;
}

Look take_look(const std::vector<int>& pids, const Look* before, live::GpuMemoryAsker& asker,
               std::chrono::milliseconds patience) {
  live::Processes processes = live::read_processes();
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  Look look = look_at(std::move(processes), std::chrono::steady_clock::now(),
                      static_cast<std::uint64_t>(std::chrono::nanoseconds(since_1970).count()),
                      before, pids);
  look.has_users = look.has_users || geteuid() == 0;
  ask_for_memory(look, asker, patience);
  return look;
}

void sort(Look& look, const Order& order) {
  for (Gpu& gpu : look.gpus) {
    std::ranges::stable_sort(gpu.rows, [&](const Row& one, const Row& other) {
      return order.reversed ? comes_before(other, one, order.key)
                            : comes_before(one, other, order.key);
    });
  }
}

}  // namespace cubfc::cli::top
