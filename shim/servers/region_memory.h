// The memory of an arena under CUBFC_ALLOCATOR=bfc.
#pragma once

#include "shim/device/context.h"

namespace cubfc {

// Gets regions by cuMemAlloc, or by cuMemAllocManaged if arenas have managed memory. Precondition:
// the arena's context is current. Thread-safe.
class RegionMemory : public RegionSource {
 public:
  RegionMemory(const DriverFunctions& driver, Device& device)
      : driver_(driver),
        device_(device),
        release_waits_(device.managed || !device.has_pools || driver.cuMemFreeAsync == nullptr) {}

  bool release_waits() const noexcept override { return release_waits_; }
  bool is_shareable() const noexcept override { return !device_.managed; }

  Region obtain(std::uint64_t bytes) noexcept override;
  void release(std::span<const Extent> regions) noexcept override;

 private:
  CUresult allocate(CUdeviceptr* base, std::uint64_t bytes) noexcept;

  const DriverFunctions& driver_;
  Device& device_;
  std::atomic<bool> release_waits_;
};

}  // namespace cubfc
