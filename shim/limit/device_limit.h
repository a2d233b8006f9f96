// The limit of one device, and what the program holds of that device beside its arenas, whether a
// limit counts it or not.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "arena/budget.h"
#include "config/policy.h"
#include "shim/driver/driver.h"
#include "shim/limit/callers.h"
#include "shim/limit/device_use.h"
#include "shim/limit/pools.h"

namespace cubfc {

using trace::Memory;

// Thread-safe. Arenas take their regions from `budget`; everything else is taken as a Claim
// (claim.h).
class DeviceLimit {
 public:
  // Of a device of so many bytes. `use` and `callers` must outlive it.
  DeviceLimit(const DriverFunctions& driver, const config::Policy& policy, CUdevice device,
              std::uint64_t total_bytes, DeviceUse& use, Callers& callers);

  arena::Budget budget;  // in bytes, shared by all of the process's contexts on the device
  Pools pools;           // what pools and graphs take of the budget

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
