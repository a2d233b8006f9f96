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
#include "shim/limit/pools.h"

namespace cubfc {

// By what function the program got memory that is in no arena.
enum class Holding : std::uint8_t {
  kPlain,     // cuMemAlloc by the driver itself: CUBFC_ALLOCATOR=platform, CUBFC_IPC=driver
  kOwnPool,   // cuMemAlloc under CUBFC_ALLOCATOR=cuda_async
  kPool,      // cuMemAllocAsync and its like
  kManaged,   // cuMemAllocManaged
  kPhysical,  // cuMemCreate
  kArray,     // cuArrayCreate and its like
};
inline constexpr std::size_t kHoldings = 6;  // kArray is the last

// Thread-safe. Arenas take their regions from `budget`; everything else is taken as a Claim
// (claim.h).
class DeviceLimit {
 public:
  // Of a device of so many bytes.
  DeviceLimit(const DriverFunctions& driver, const config::Policy& policy, CUdevice device,
              std::uint64_t total_bytes);

  arena::Budget budget;  // in bytes, shared by all of the process's contexts on the device
  Pools pools;           // what pools and graphs take of the budget

  // Bytes that Claims hold.
  std::uint64_t held(Holding holding) const {
    return held_[static_cast<std::size_t>(holding)].load(std::memory_order_relaxed);
  }
  // Whether the limit counts such memory.
  bool counts(Holding holding) const {
    return counts_all_ || holding == Holding::kPlain || holding == Holding::kOwnPool;
  }
  static bool is_of_pool(Holding holding) {
    return holding == Holding::kPool || holding == Holding::kOwnPool;
  }

 private:
  friend class Claim;

  // All of the bytes or none. `pool_id` is set, and passed to give(), for memory of a pool.
  bool take(Holding holding, std::uint64_t bytes, CUmemoryPool pool,
            std::uint64_t& pool_id) noexcept;
  void give(Holding holding, std::uint64_t bytes, std::uint64_t pool_id) noexcept;
  std::atomic<std::uint64_t>& held_for(Holding holding) {
    return held_[static_cast<std::size_t>(holding)];
  }

  const bool counts_all_;
  std::array<std::atomic<std::uint64_t>, kHoldings> held_{};
};

}  // namespace cubfc
