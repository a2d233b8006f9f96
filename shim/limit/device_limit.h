// The limit of one device, and what the program holds of that device beside its arenas, whether a
// limit counts it or not.
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

// In which folder the members of the policy's group meet: a group that is enforced is one whatever
// folder the environment names.
inline Where where_group_meets(const config::Policy& policy) noexcept {
  return policy.group.origin.enforced ? Where::kFixed : Where::kAsSet;
}

// Thread-safe. Arenas take their regions from `budget`; everything else is taken as a Claim
// (claim.h).
class DeviceLimit {
  const config::Policy& policy_;
  const std::optional<config::HardLimit> of_process_;
  const std::optional<config::HardLimit> least_;
  bool is_unusable_;
  const std::unique_ptr<Group> group_;  // before the budget, which claims there, too

 public:
  // A device, by its number, its identity in every process and its size in bytes.
  struct Of {
    CUdevice device;
    const DeviceId& id;
    std::uint64_t total_bytes;
  };
  // Joins the group that the policy names; where that cannot be, it says why and gives nothing.
  // `use` and `callers` must outlive it, as the policy must.
  DeviceLimit(const DriverFunctions& driver, const config::Policy& policy, const Of& of,
              DeviceUse& use, Callers& callers);

  arena::Budget budget;  // in bytes, shared by all of the process's contexts on the device
  Pools pools;           // what pools and graphs take of the budget
  // The budget's limit when the device became known: for what has one size as long as it lives.
  const std::uint64_t at_first;

  // Who has set the limit that was the least at first; nullptr without one, and where nobody can be
  // named.
  const config::Origin* origin() const noexcept { return least_ ? least_->origin : nullptr; }
  // Whether the program sees a device of its size.
  bool is_seen() const noexcept { return least_ && least_->is_seen(); }
  // The group whose budget it shares; nullptr without one.
  Group* group() const noexcept { return group_.get(); }
  // By which others of the group know this process in a Rendezvous; 0 without one.
  std::uint64_t group_key() const noexcept { return group_ == nullptr ? 0 : group_->key(); }
  // A limit that cannot be used: nothing is given.
  bool is_unusable() const noexcept { return is_unusable_; }
  // Of the process's limit and the group's, the one that has less left: how large it is, how much
  // of it is taken, and who has set it (nullptr while it is unusable). Nothing without a limit.
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

  // All of the bytes or none. `pool_id` is set, and passed to give(), for memory of a pool.
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
