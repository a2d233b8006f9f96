#include "cli/replay/context_arenas.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "config/arena_options.h"

namespace cubfc::replay {

ContextArenas::ContextArenas(const Workload& workload, const config::Policy& policy,
                             const SimulatedDevices& devices, PlayedTrace& trace)
    : workload_(workload),
      policy_(policy),
      devices_(devices),
      trace_(trace),
      arenas_(workload.groups.size()),
      on_device_(devices.size()) {}

PlayedArena* ContextArenas::of(std::uint32_t group) {
  if (arenas_[group] == nullptr && has_arena(policy_, workload_.groups[group])) {
    make(group);
  }
  return find(group);
}

void ContextArenas::make(std::uint32_t group) {
  constexpr std::uint64_t kGranularity = arena::kSourceUnitBytes;  // as the driver's is
  const std::uint32_t number = workload_.groups[group].device;
  SimulatedDevice& device = *devices_[number];
  if (count_ == kMostArenas) {
    throw std::runtime_error("more than " + std::to_string(kMostArenas) +
                             " contexts have memory at once, which cannot be replayed");
  }
  ++count_;
  const std::uint64_t page_bytes =
      policy_.allocator.value == config::Allocator::kVmm
          ? config::page_bytes(std::min(device.total_bytes, device.budget.limit()), kGranularity)
          : 0;
  arenas_[group] = std::make_unique<PlayedArena>(device, group, page_bytes, trace_);
  on_device_[number].push_back(arenas_[group].get());
  begin(*arenas_[group]);
}

// Does what Contexts::start() and Device::begin_arena() do (shim/device/). What is preallocated is
// only noted in the device; an arena takes it itself only under CUBFC_PREALLOCATE=whole.
void ContextArenas::begin(PlayedArena& played) const {
  const std::uint64_t free_bytes = std::min(played.device.free_bytes(), played.device.total_bytes);
  arena::Options options = config::arena_options(
      policy_,
      {.total_bytes = played.device.total_bytes, .limit_bytes = played.device.budget.limit()},
      policy_.preallocation(free_bytes, played.device.total_bytes));
  played.device.plan(options.preallocate_bytes);
  if (!options.whole) {
    options.preallocate_bytes = 0;
  }
  played.arena.begin(options);
}

void ContextArenas::end(std::uint32_t group) {
  if (arenas_[group] != nullptr) {
    arenas_[group]->end();
    ended_calls_ += arenas_[group]->memory.calls();
    std::erase(on_device_[workload_.groups[group].device], arenas_[group].get());
    arenas_[group] = nullptr;
    --count_;
  }
}

std::uint64_t ContextArenas::driver_calls() const {
  std::uint64_t calls = ended_calls_;
  for (const auto& played : arenas_) {
    calls += played == nullptr ? 0 : played->memory.calls();
  }
  return calls;
}

}  // namespace cubfc::replay
