#include "cli/run/share.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "cli/failure.h"
#include "config/values.h"

namespace cubfc::cli {
namespace {

constexpr unsigned kMost = 1024;

// Nothing for what is no whole number from 1 to kMost.
std::optional<unsigned> read_number(std::string_view text) {
  const auto number = config::read_count(text);
  return number && *number >= 1 && *number <= kMost ? std::optional(static_cast<unsigned>(*number))
                                                    : std::nullopt;
}

struct Found {
  unsigned number;
  std::string variable;
};

std::optional<Found> first_of(const GetVariable& get, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = get(name);
    if (const auto number = read_number(value == nullptr ? "" : value)) {
      return Found{*number, name};
    }
  }
  return std::nullopt;
}

std::optional<Found> processes_on_node(const GetVariable& get) {
  if (const auto found = first_of(get, {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"})) {
    return found;
  }
  const char* const list = get("SLURM_STEP_TASKS_PER_NODE");
  const char* const of_job = list == nullptr ? get("SLURM_TASKS_PER_NODE") : list;
  const char* const node = get("SLURM_NODEID");
  if (of_job != nullptr) {
    const auto number = config::read_count(node == nullptr ? "0" : node);
    const auto tasks = tasks_on_node(
        of_job, static_cast<unsigned>(std::min<std::uint64_t>(number.value_or(0), 1U << 20)));
    if (tasks) {
      return Found{*tasks, list == nullptr ? "SLURM_TASKS_PER_NODE" : "SLURM_STEP_TASKS_PER_NODE"};
    }
  }
  return std::nullopt;
}

// How many GPUs the job has of this node, by Slurm; else how many this process has.
Found gpus_on_node(const GetVariable& get, const std::function<unsigned()>& count_gpus) {
  if (const auto found = first_of(get, {"SLURM_GPUS_ON_NODE"})) {
    return *found;
  }
  if (const char* const visible = get("CUDA_VISIBLE_DEVICES");
      visible != nullptr && *visible != '\0') {
    const std::string_view list(visible);
    return {static_cast<unsigned>(
                std::min<std::ptrdiff_t>(std::count(list.begin(), list.end(), ',') + 1, kMost)),
            "CUDA_VISIBLE_DEVICES"};
  }
  return {count_gpus(), "GPUs of this machine"};
}

// The share of each of the job's `processes` on this node where the job has Slurm's shards of a
// GPU; nothing where it has none. No variable of Slurm's says how many shards a GPU has, so the
// site must set SHARDS_PER_GPU. `all`: the processes, in words. Throws Failure without
// SHARDS_PER_GPU.
std::optional<Share> share_of_shards(const GetVariable& get, unsigned processes,
                                     const std::string& all) {
  const auto shards = first_of(get, {"SLURM_SHARDS_ON_NODE"});
  if (!shards) {
    return std::nullopt;
  }
  const auto of_gpu = first_of(get, {"SHARDS_PER_GPU"});
  if (!of_gpu) {
    throw Failure{"--share auto: the job has " + std::to_string(shards->number) +
                      " shards (SLURM_SHARDS_ON_NODE) of a GPU, and SHARDS_PER_GPU does not say "
                      "how many a GPU has; gres.conf does: SHARDS_PER_GPU=8 cubfc run ...",
                  kUsage};
  }
  return Share{processes, std::min(shards->number, of_gpu->number), of_gpu->number,
               all + " on " + std::to_string(shards->number) + " of " +
                   std::to_string(of_gpu->number) + " shards of a GPU (SLURM_SHARDS_ON_NODE)"};
}

}  // namespace

std::string Share::fraction() const {
  constexpr std::uint64_t kParts = 1'000'000;
  const std::uint64_t parts = kParts * shards / (std::uint64_t{of_shards} * processes);
  if (parts >= kParts) {
    return "1";
  }
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0.%06llu", static_cast<unsigned long long>(parts));
  return text.data();
}

std::optional<unsigned> tasks_on_node(const std::string& list, unsigned node) {
  std::string_view rest = list;
  while (!rest.empty()) {
    std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    unsigned nodes = 1;
    if (const std::size_t open = entry.find("(x"); open != std::string_view::npos) {
      const auto times = config::read_count(
          entry.ends_with(')') ? entry.substr(open + 2, entry.size() - open - 3) : "");
      if (!times || *times == 0 || *times > std::numeric_limits<unsigned>::max()) {
        return std::nullopt;
      }
      nodes = static_cast<unsigned>(*times);
      entry = entry.substr(0, open);
    }
    if (node < nodes) {
      return read_number(entry);
    }
    node -= nodes;
  }
  return std::nullopt;
}

unsigned count_gpus_of_machine() {
  unsigned count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    const std::string_view number =
        std::string_view(name).substr(std::min<std::size_t>(name.size(), 6));
    count += name.starts_with("nvidia") && !number.empty() &&
                     std::all_of(number.begin(), number.end(),
                                 [](char c) { return c >= '0' && c <= '9'; })
                 ? 1
                 : 0;
  }
  return count;
}

Share read_share_of(const std::string& text, const GetVariable& get,
                    const std::function<unsigned()>& count_gpus) {
  if (const auto number = read_number(config::trimmed(text))) {
    return {.processes = *number, .because = "--share " + std::to_string(*number)};
  }
  if (!config::same_word(config::trimmed(text), "auto")) {
    throw Failure{"--share " + config::quoted(text) +
                      " cannot be used; accepted: how many processes share each GPU, 1 to " +
                      std::to_string(kMost) + ", or auto",
                  kUsage};
  }
  const auto processes = processes_on_node(get);
  if (!processes) {
    throw Failure{
        "--share auto: no launcher says how many processes run on this node (LOCAL_WORLD_SIZE of "
        "torchrun, OMPI_COMM_WORLD_LOCAL_SIZE, MPI_LOCALNRANKS, SLURM_TASKS_PER_NODE); --share N "
        "says how many share each GPU",
        kUsage};
  }
  const std::string all = std::to_string(processes->number) +
                          (processes->number == 1 ? " process (" : " processes (") +
                          processes->variable + ")";
  if (const auto share = share_of_shards(get, processes->number, all)) {
    return *share;
  }
  if (processes->number == 1) {
    return {.because = all + ", which shares with none"};
  }
  const Found gpus = gpus_on_node(get, count_gpus);
  if (gpus.number == 0) {
    throw Failure{"--share auto: it cannot be told how many GPUs " + all +
                      " have: there is no /dev/nvidia0, the driver shows none, and "
                      "CUDA_VISIBLE_DEVICES is not set; --share N says how many share each",
                  kUsage};
  }
  return {.processes = (processes->number + gpus.number - 1) / gpus.number,
          .because = all + " on " + std::to_string(gpus.number) +
                     (gpus.number == 1 ? " GPU (" : " GPUs (") + gpus.variable + ")"};
}

}  // namespace cubfc::cli
