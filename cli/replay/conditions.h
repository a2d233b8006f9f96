// The conditions under which a workload is played, and what follows from them for its devices and
// its memory. Knows no arenas.
#pragma once

#include <cstdint>

#include "cli/replay/workload.h"
#include "config/policy.h"

namespace cubfc::replay {

// Stands for the size of memory that has no bound.
inline constexpr std::uint64_t kPlenty = ~std::uint64_t{0};

struct Conditions {
  config::Policy policy;  // bfc, vmm or platform
  // The size of every device. 0: each has its recorded size; if none was recorded, the limit; if
  // there is no limit, twice its Device::most_asked, rounded up to a GiB.
  std::uint64_t total_bytes = 0;
  // Whether a request can only fail at the limit, not for lack of memory of the device.
  bool device_is_large_enough = false;
};

// The size of a device; with device_is_large_enough, at least the limit.
std::uint64_t total_bytes_of(const Device& device, const Conditions& conditions);
// Where the size comes from, in words: "as recorded", "--total", ...
const char* origin_of_total(const Device& device, const Conditions& conditions);
// The bytes that a device can give; kPlenty with device_is_large_enough.
std::uint64_t memory_bytes_of(const Device& device, const Conditions& conditions);

// Whether a group's memory lies in an arena under the policy.
bool has_arena(const config::Policy& policy, const Group& group);
// The kind of memory that a group's requests get under the policy.
trace::Memory memory_of(const config::Policy& policy, const Group& group);
// Whether the limit counts memory of this kind.
bool is_counted(const config::Policy& policy, trace::Memory memory);

}  // namespace cubfc::replay
