#include "cli/replay/beside_arenas.h"

#include "arena/units.h"

namespace cubfc::replay {

using trace::Memory;

Need BesideArenas::need_of(std::uint32_t group, std::uint64_t bytes) const {
  const Memory memory = memory_of(policy_, workload_.groups[group]);
  return {.bytes = bytes,
          .of_device = memory != Memory::kManaged,
          .counted = is_counted(policy_, memory)};
}

arena::Failure BesideArenas::take(std::uint32_t group, std::uint64_t bytes) {
  const Need need = need_of(group, bytes);
  SimulatedDevice& device = device_of(group);
  if (need.counted && !device.budget.take(bytes)) {
    return arena::Failure::kOverLimit;
  }
  if (need.of_device && !device.take(bytes)) {
    device.budget.give(need.counted ? bytes : 0);
    return arena::Failure::kExhausted;
  }
  taken_[group] += bytes;
  ++driver_calls_;
  return arena::Failure::kNone;
}

void BesideArenas::give(std::uint32_t group, std::uint64_t bytes) {
  const Need need = need_of(group, bytes);
  SimulatedDevice& device = device_of(group);
  device.budget.give(need.counted ? bytes : 0);
  device.give(need.of_device ? bytes : 0);
  taken_[group] -= bytes;
  driver_calls_ += bytes > 0 ? 1 : 0;
}

arena::Address BesideArenas::next_address() {
  constexpr arena::Address kFirst = arena::Address{1} << 40;  // below all arenas' addresses
  addresses_ = (addresses_ + 1) % (kFirst / arena::kGranuleBytes);
  return kFirst + addresses_ * arena::kGranuleBytes;
}

}  // namespace cubfc::replay
