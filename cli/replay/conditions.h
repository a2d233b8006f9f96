// Under what a workload is played, and what that makes of its devices and its memory. Knows no
// arenas.
#pragma once

#include <cstdint>

#include "cli/replay/workload.h"
#include "config/policy.h"

namespace cubfc::replay {

// Of what nothing bounds.
inline constexpr std::uint64_t kPlenty = ~std::uint64_t{0};

struct Conditions {
  config::Policy policy;  // bfc, vmm or platform
  // Of every device; 0: as recorded, and where that is not known the limit, or without one twice
  // what was in use at the peak.
  std::uint64_t total_bytes = 0;
  // Only the limit counts, not what the device has.
  bool device_is_large_enough = false;
};

// What a device has in all.
std::uint64_t total_bytes_of(const Device& device, const Conditions& conditions);
// Where that is known from: "as recorded", "--total", ...
const char* origin_of_total(const Device& device, const Conditions& conditions);
// What it can give; kPlenty where only the limit counts.
std::uint64_t memory_bytes_of(const Device& device, const Conditions& conditions);

// Whether a group's memory lies in an arena under the policy.
bool has_arena(const config::Policy& policy, const Group& group);
// By whom it is served.
trace::Memory memory_of(const config::Policy& policy, const Group& group);
// Whether the limit counts what is served so.
bool is_counted(const config::Policy& policy, trace::Memory memory);

}  // namespace cubfc::replay
