// The limit of one device, and how much the program holds of that device outside of the arenas,
// whether a limit counts it or not.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "arena/budget.h"
#include "config/policy.h"
#include "shim/driver/driver.h"
#include "shim/limit/callers.h"
#include "shim/limit/device_use.h"
#include "shim/limit/pools.h"
#include "shim/meet/group.h"

namespace cubfc {

using trace::Memory;

// In which folder the members of the policy's group meet. With an enforced group it is always the
// same: a process must not get a group of its own by an environment variable that names a folder.
inline Where where_group_meets(const config::Policy& policy) noexcept {
  return policy.group.origin.enforced ? Where::kFixed : Where::kAsSet;
}

// Thread-safe. Arenas claim the bytes of their regions in `budget`; all other memory is taken as a
// Claim (claim.h).
class DeviceLimit {
  const config::Policy& policy_;
  const std::optional<config::HardLimit> of_process_;
  const std::optional<config::HardLimit> least_;
  bool is_unusable_;
  const std::unique_ptr<Group> group_;  // declared before `budget`, which claims there, too

 public:
  // A device: its number in this process, its identity in all processes and its size in bytes.
  struct Of {
    CUdevice device;
    const DeviceId& id;
    std::uint64_t total_bytes;
  };
  // Joins the group that the policy names. If that fails, logs the reason; the limit is unusable
  // then, and no memory is given. `driver`, `policy`, `use` and `callers` must outlive this object.
  DeviceLimit(const DriverFunctions& driver, const config::Policy& policy, const Of& of,
              DeviceUse& use, Callers& callers);

  arena::Budget budget;  // in bytes, shared by all of the process's contexts on the device
  Pools pools;           // what pools and graphs take of the budget
  // The budget's limit in bytes when the device became known. Used where a size is chosen once and
  // cannot change, as for a reserved range of addresses.
  const std::uint64_t at_first;

  // Who has set the limit that was the lowest when the device became known. nullptr without a
  // limit, and where nobody can be named.
  const config::Origin* origin() const noexcept { return least_ ? least_->origin : nullptr; }
  // Whether the program is shown a device of the size of that limit.
  bool is_seen() const noexcept { return least_ && least_->is_seen(); }
  // The group that the process shares its limit with; nullptr without one.
  Group* group() const noexcept { return group_.get(); }
  // The key by which processes of the same group find each other in a Rendezvous; 0 without a
  // group.
  std::uint64_t group_key() const noexcept { return group_ == nullptr ? 0 : group_->key(); }
  // The limit cannot be used: every request fails.
  bool is_unusable() const noexcept { return is_unusable_; }
  // Chooses between the process's limit and the group's limit. Returns the group's limit if the
  // group has fewer bytes left, or if its limit is lower; else the process's limit. `taken`: how
  // much of the limit returned is taken. `origin`: who has set that limit; nullptr while the limit
  // is unusable. Returns nothing without a limit.
  struct Tightest {
    std::uint64_t bytes;
    std::uint64_t taken;
    const config::Origin* origin;
  };
  std::optional<Tightest> tightest() const noexcept;

  // Bytes that Claims hold.
  std::uint64_t held(Memory memory) const {
    return held_[static_cast<std::size_t>(memory)].load(std::memory_order_relaxed);
  }
  // Whether the limit counts such memory.
  bool counts(Memory memory) const {
    return counts_all_ || memory == Memory::kDirect || memory == Memory::kOwnPool;
  }
  static bool is_of_pool(Memory memory) {
    return memory == Memory::kPool || memory == Memory::kOwnPool;
  }

 private:
  friend class Claim;

  std::unique_ptr<Group> join_group(const Of& of);

  // Takes all of the bytes or none. For memory of a pool `pool_id` is set, and to be passed to
  // give().
  bool take(Memory memory, std::uint64_t bytes, CUmemoryPool pool, std::uint64_t& pool_id) noexcept;
  void give(Memory memory, std::uint64_t bytes, std::uint64_t pool_id) noexcept;
  std::atomic<std::uint64_t>& held_for(Memory memory) {
    return held_[static_cast<std::size_t>(memory)];
  }

  DeviceUse& use_;
  Callers& callers_;
  const bool counts_all_;
  std::array<std::atomic<std::uint64_t>, trace::kMemories> held_{};
};

}  // namespace cubfc
