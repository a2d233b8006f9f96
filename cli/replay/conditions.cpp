#include "cli/replay/conditions.h"

#include <algorithm>
#include <optional>

#include "arena/units.h"

namespace cubfc::replay {
namespace {

using trace::Memory;

struct Total {
  std::uint64_t bytes;
  const char* origin;
};

std::optional<std::uint64_t> limit_of(const Device& device, const Conditions& conditions) {
  return conditions.policy.mem_limit.value.on(
      device.number, conditions.total_bytes != 0 ? conditions.total_bytes : device.total_bytes);
}

Total total_of(const Device& device, const Conditions& conditions) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  const std::optional<std::uint64_t> limit = limit_of(device, conditions);
  if (conditions.total_bytes != 0) {
    return {conditions.total_bytes, "--total"};
  }
  if (device.total_bytes != 0) {
    return {device.total_bytes, "as recorded"};
  }
  if (limit) {
    return {*limit, "the limit; --total says how much it has"};
  }
  return {arena::round_up(std::min(device.most_asked, kPlenty / 4) * 2, kGiB),
          "twice the peak; --total says how much it has"};
}

}  // namespace

std::uint64_t total_bytes_of(const Device& device, const Conditions& conditions) {
  const std::uint64_t total = total_of(device, conditions).bytes;
  return conditions.device_is_large_enough
             ? std::max(total, limit_of(device, conditions).value_or(0))
             : total;
}

const char* origin_of_total(const Device& device, const Conditions& conditions) {
  return total_of(device, conditions).origin;
}

std::uint64_t memory_bytes_of(const Device& device, const Conditions& conditions) {
  return conditions.device_is_large_enough ? kPlenty : total_bytes_of(device, conditions);
}

bool has_arena(const config::Policy& policy, const Group& group) {
  return group.place.memory == Memory::kArena &&
         policy.allocator.value != config::Allocator::kPlatform;
}

Memory memory_of(const config::Policy& policy, const Group& group) {
  return group.place.memory == Memory::kArena && !has_arena(policy, group) ? Memory::kDirect
                                                                           : group.place.memory;
}

bool is_counted(const config::Policy& policy, Memory memory) {
  return policy.limit_counts.value == config::LimitCounts::kAll || memory == Memory::kArena ||
         memory == Memory::kDirect;
}

}  // namespace cubfc::replay
