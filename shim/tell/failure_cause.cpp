#include "shim/tell/failure_cause.h"

#include <algorithm>

#include "config/options.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

// The bytes that the request could have if they were in one piece: what is free in the arena, if
// one was asked, and `beside`. Under vmm only whole free pages count, since they can be mapped
// together and parts of pages cannot.
std::uint64_t free_for(const config::Policy& policy, const FailedRequestFacts& facts,
                       std::uint64_t beside) {
  const bool is_in_pages = policy.allocator.value == config::Allocator::kVmm && facts.free_in_pages;
  const std::uint64_t of_arena = is_in_pages ? *facts.free_in_pages : facts.free_in_arena;
  const std::uint64_t inside = facts.of_arena ? of_arena : 0;
  return inside + std::min(beside, ~std::uint64_t{0} - inside);
}

std::uint64_t left_of_limit(const FailedRequestFacts& facts) {
  return facts.limit ? facts.limit->bytes - std::min(facts.limit->bytes, facts.limit->taken)
                     : ~std::uint64_t{0};
}

std::string name_of(const FailedRequestFacts::Limit& limit) {
  return limit.origin == nullptr ? "the limit" : limit.origin->text();
}

bool is_in_file(const FailedRequestFacts::Limit& limit) {
  return limit.origin != nullptr && !limit.origin->file.empty();
}

// Whether the limit is the group's, and no longer what the setting says.
bool is_changed(const config::Policy& policy, const FailedRequestFacts& facts) {
  return facts.group && facts.group->is_changed &&
         facts.limit->origin == &policy.group_limit.origin;
}

// The least limit that would do for this request alone, as it is to be set: a size, or a fraction
// of the device. Empty if none would do.
std::string higher_limit(const config::Policy& policy, const FailedRequestFacts& facts) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const config::Origin* const origin = facts.limit->origin;
  // A little more than needed: a region for many blocks has some bytes that blocks cannot use
  // (arena/region.h, lead_for()).
  const std::uint64_t needed = facts.limit->taken + facts.asked + 4 * kMiB;
  if (origin == nullptr || !facts.device) {
    return {};
  }
  if (is_changed(policy, facts)) {
    return format("a higher limit, at least `cubfc limit --group {} {}MiB`", facts.group->name,
                  arena::round_up(needed, kMiB) / kMiB);
  }
  const std::string where = is_in_file(*facts.limit) ? " in " + origin->file : "";
  const std::string who = origin->by.empty() ? "" : ", which " + origin->by + " has set";
  if (origin != &policy.mem_fraction.origin && origin != &policy.enforced.mem_fraction.origin) {
    return format("a higher limit, at least {}={}{}{}{}", origin->variable,
                  arena::round_up(needed, kMiB) / kMiB,
                  config::is_in_mebibytes(origin->variable) ? "" : "MiB", where, who);
  }
  const std::uint64_t percent = (needed * 100 + facts.device->total - 1) / facts.device->total;
  return percent > 100 ? ""
                       : format("a higher limit, at least {}={}.{:02}{}{}", origin->variable,
                                percent / 100, percent % 100, where, who);
}

}  // namespace

Cause cause_of(const config::Policy& policy, const FailedRequestFacts& facts) {
  if (facts.limit_is_unusable) {
    return Cause::kUnusableLimit;
  }
  if (facts.failure == arena::Failure::kHostMemory) {
    return Cause::kHostMemory;
  }
  if (facts.limit && facts.asked > facts.limit->bytes) {
    return Cause::kLargerThanLimit;
  }
  if (facts.device ? facts.asked > facts.device->total
                   : facts.failure == arena::Failure::kTooLarge) {
    return Cause::kLargerThanDevice;
  }
  if (facts.host_reserve_refuses) {
    return Cause::kHostReserve;
  }
  const std::uint64_t left = left_of_limit(facts);
  const std::uint64_t device_free =
      facts.device ? facts.device->free
                   : (facts.failure == arena::Failure::kExhausted ? 0 : facts.asked);
  const std::uint64_t beyond_reserve = policy.beyond_reserve(device_free);
  if (free_for(policy, facts, std::min(left, beyond_reserve)) >= facts.asked) {
    const bool in_one_piece = std::min(left, beyond_reserve) >= facts.asked;
    return in_one_piece ? Cause::kDriver : Cause::kFragmented;
  }
  if (facts.waiting_in_arena >= facts.asked) {
    return Cause::kWaiting;
  }
  if (free_for(policy, facts, left) < facts.asked) {
    return Cause::kOverLimit;
  }
  return free_for(policy, facts, device_free) >= facts.asked ? Cause::kReserve : Cause::kDeviceFull;
}

const char* name_of(Cause cause) {
  switch (cause) {
    case Cause::kUnusableLimit:
      return "unusable_limit";
    case Cause::kLargerThanLimit:
      return "larger_than_limit";
    case Cause::kLargerThanDevice:
      return "larger_than_device";
    case Cause::kOverLimit:
      return "over_limit";
    case Cause::kWaiting:
      return "waiting";
    case Cause::kFragmented:
      return "fragmented";
    case Cause::kReserve:
      return "reserve";
    case Cause::kHostReserve:
      return "host_reserve";
    case Cause::kDeviceFull:
      return "device_full";
    case Cause::kDriver:
      return "driver";
    case Cause::kHostMemory:
      return "host_memory";
  }
  return "unknown";
}

std::string describe(const config::Policy& policy, const FailedRequestFacts& facts, Cause cause) {
  switch (cause) {
    case Cause::kUnusableLimit:
      return "the limit cannot be used, so no device memory is given";
    case Cause::kLargerThanLimit:
      return is_changed(policy, facts)
                 ? format("larger than the limit ({} of group {}, changed by `cubfc limit`)",
                          log::bytes(facts.limit->bytes), facts.group->name)
                 : format("larger than the limit of {} ({})", log::bytes(facts.limit->bytes),
                          name_of(*facts.limit));
    case Cause::kLargerThanDevice:
      return facts.device ? format("larger than the device ({})", log::bytes(facts.device->total))
                          : "larger than the device";
    case Cause::kOverLimit:
      return format(
          "over the limit ({} of {} taken{}{})", log::bytes(facts.limit->taken),
          log::bytes(facts.limit->bytes),
          facts.limit->origin == &policy.group_limit.origin ? " by the processes of the group" : "",
          is_in_file(*facts.limit) ? "; " + name_of(*facts.limit) : "");
    case Cause::kWaiting:
      return "waiting: memory that was freed is used again when the work before it, or a stream's "
             "capture, has ended";
    case Cause::kFragmented:
      return "fragmentation: enough is free, not in one piece";
    case Cause::kReserve:
      return format("{} keeps {} of the device free", policy.reserve.origin.text(),
                    log::bytes(policy.reserve.value));
    case Cause::kHostReserve:
      return format("{} keeps {} of the host's memory free", policy.host_reserve.origin.text(),
                    log::bytes(policy.host_reserve.value));
    case Cause::kDeviceFull:
      break;
    case Cause::kDriver:
      return "the driver refuses, though the device has enough free";
    case Cause::kHostMemory:
      return "the host has no memory for the records";
  }
  if (!facts.of_arena && facts.free_in_arena >= facts.asked) {
    return "device full; what is free in the arena lies between its blocks, where only cuMemAlloc "
           "finds room";
  }
  return "device full";
}

std::string advice(const config::Policy& policy, const FailedRequestFacts& facts, Cause cause) {
  const std::uint64_t device_free = facts.device ? facts.device->free : 0;
  switch (cause) {
    case Cause::kOverLimit:
    case Cause::kLargerThanLimit:
      return policy.beyond_reserve(device_free) >= facts.asked ? higher_limit(policy, facts) : "";
    case Cause::kReserve:
      return "a smaller " + policy.reserve.origin.text();
    case Cause::kHostReserve:
      return "a smaller " + policy.host_reserve.origin.text();
    case Cause::kFragmented:
      return policy.allocator.value == config::Allocator::kBfc && facts.of_arena &&
                     !policy.unified_memory.value &&
                     facts.free_in_pages.value_or(0) +
                             std::min(device_free, left_of_limit(facts)) >=
                         facts.asked
                 ? "CUBFC_ALLOCATOR=vmm: free memory moves to where it makes one piece"
                 : "";
    default:
      return {};
  }
}

}  // namespace cubfc
