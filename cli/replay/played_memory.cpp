#include "cli/replay/played_memory.h"

#include <memory>

#include "cli/replay/search.h"

namespace cubfc::replay {
namespace {

using trace::Kind;

SimulatedDevices simulated(const Workload& workload, const Conditions& conditions) {
  SimulatedDevices devices;
  for (const Device& device : workload.devices) {
    devices.push_back(std::make_unique<SimulatedDevice>(conditions.policy, device.number,
                                                        total_bytes_of(device, conditions),
                                                        memory_bytes_of(device, conditions)));
  }
  return devices;
}

bool lacks_memory(arena::Failure failure) {
  return failure != arena::Failure::kSourceError && failure != arena::Failure::kTooLarge;
}

// The bytes that a block has beyond those that were asked for.
std::uint64_t padding_of(const PlayedArena* played, std::uint64_t bytes) {
  return played == nullptr ? 0 : arena::block_bytes_for(bytes) - bytes;
}

}  // namespace

PlayedMemory::PlayedMemory(const Workload& workload, const Conditions& conditions,
                           PlayedTrace& trace)
    : workload_(workload),
      conditions_(conditions),
      trace_(trace),
      devices_(simulated(workload, conditions)),
      arenas_(workload, conditions.policy, devices_, trace),
      beside_(workload, conditions.policy, devices_) {}

arena::Address PlayedMemory::allocate(std::uint32_t group, std::uint64_t bytes) {
  PlayedArena* const played = arenas_.of(group);
  const arena::Address address = serve(played, group, bytes);
  if (address != 0) {
    trace_.write(Kind::kAllocate, group, address, bytes, padding_of(played, bytes));
  }
  return address;
}

arena::Address PlayedMemory::serve(PlayedArena* played, std::uint32_t group, std::uint64_t bytes) {
  if (played == nullptr) {
    return take_beside(group, bytes);
  }
  if (frees_are_deferred()) {
    played->collect();
  }
  const arena::Address address = played->arena.allocate_without_growth(bytes);
  return address != 0 ? address : take_from(*played, group, bytes);
}

// Tries in the order of Allocations::take() (shim/serve/): what the arena has; growth; growth with
// what can be given back at once; regions that are not meant for the request; growth with freed
// blocks that wait.
arena::Address PlayedMemory::take_from(PlayedArena& played, std::uint32_t group,
                                       std::uint64_t bytes) {
  arena::Allocation got = played.arena.allocate(bytes);
  Search search = search_for(group, {.bytes = bytes});
  search.growth_is(got.address == 0 ? played.arena.growth_for(bytes) : 0);
  for (const Search::Waits waits : {Search::Waits::kNo, Search::Waits::kYes}) {
    while (got.address == 0 && lacks_memory(got.failure) && search.finds_more(waits)) {
      got = played.arena.allocate(bytes);
    }
    if (got.address == 0 && lacks_memory(got.failure)) {
      got.address = played.arena.allocate_against_the_rule(bytes);
    }
  }
  waits_ += search.waits();
  last_failure_ = got.failure;
  return got.address;
}

arena::Address PlayedMemory::take_beside(std::uint32_t group, std::uint64_t bytes) {
  Search search = search_for(group, beside_.need_of(group, bytes));
  do {
    last_failure_ = beside_.take(group, bytes);
  } while (last_failure_ != arena::Failure::kNone && search.finds_more(Search::Waits::kYes));
  waits_ += search.waits();
  return last_failure_ == arena::Failure::kNone ? beside_.next_address() : 0;
}

Search PlayedMemory::search_for(std::uint32_t group, const Need& need) const {
  const std::uint32_t device = workload_.groups[group].device;
  return {*devices_[device], arenas_.on_device(device), need};
}

void PlayedMemory::free(std::uint32_t group, arena::Address address, std::uint64_t bytes) {
  PlayedArena* const played = arenas_.find(group);
  if (played != nullptr && frees_are_deferred()) {
    played->retire(address, arena::block_bytes_for(bytes));
    return;
  }
  if (played != nullptr) {
    played->arena.free(address);
  } else {
    beside_.give(group, bytes);
  }
  trace_.write(Kind::kFree, group, address, bytes + padding_of(played, bytes));
}

void PlayedMemory::end_context_of(std::uint32_t group) {
  for (const std::uint32_t each : workload_.contexts[workload_.groups[group].context]) {
    arenas_.end(each);
    beside_.end(each);
  }
  trace_.write(Kind::kEndPlace, group, 0, 0);
}

OutOfMemory PlayedMemory::describe_failure(std::uint32_t group, std::uint64_t bytes) const {
  const std::uint32_t device = workload_.groups[group].device;
  return describe({.asked_bytes = bytes,
                   .played = arenas_.find(group),
                   .device = *devices_[device],
                   .device_number = workload_.devices[device].number,
                   .only_limit_counts = conditions_.device_is_large_enough,
                   .failure = last_failure_});
}

}  // namespace cubfc::replay
