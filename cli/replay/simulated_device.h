// A device without a GPU: counts what is taken of its memory, and makes up addresses for arenas.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "arena/budget.h"
#include "arena/memory_source.h"
#include "config/policy.h"

namespace cubfc::replay {

// Called for every region, and every run of pages, that an arena takes or gives back.
class GrowthListener {
 public:
  virtual ~GrowthListener() = default;
  virtual void grew(arena::Address base, std::uint64_t bytes) = 0;
  virtual void shrank(arena::Address base, std::uint64_t bytes) = 0;
};

// The limit of a device under a policy, in bytes; nothing without one.
inline std::optional<std::uint64_t> hard_limit_bytes(const config::Policy& policy,
                                                     std::uint64_t total_bytes, unsigned device) {
  const auto limit = policy.hard_limit(total_bytes, static_cast<int>(device));
  return limit ? std::optional(limit->bytes) : std::nullopt;
}

// Counts the memory of one device. `policy` must outlive the object. Not thread-safe.
class SimulatedDevice {
 public:
  // `memory_bytes`: what the device can give; ~0 where only a limit counts.
  SimulatedDevice(const config::Policy& policy, unsigned number, std::uint64_t its_total_bytes,
                  std::uint64_t memory_bytes)
      : total_bytes(its_total_bytes),
        budget(
            hard_limit_bytes(policy, its_total_bytes, number).value_or(arena::Budget::kUnlimited)),
        policy_(policy),
        memory_bytes_(memory_bytes) {}

  std::uint64_t free_bytes() const { return memory_bytes_ - taken_; }
  // Takes so many bytes; false if fewer are free beyond CUBFC_RESERVE. give() must only be called
  // for bytes that were taken.
  bool take(std::uint64_t bytes) {
    if (bytes > policy_.beyond_reserve(free_bytes())) {
      return false;
    }
    taken_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, taken_);
    return true;
  }
  void give(std::uint64_t bytes) { taken_ -= bytes; }
  std::uint64_t taken_bytes() const { return taken_; }
  std::uint64_t peak_bytes() const { return peak_bytes_; }
  // plan(): notes that so many bytes of the device are to be preallocated, those that are taken
  // already among them. bytes_ahead(): how many of the planned bytes are not taken yet.
  void plan(std::uint64_t bytes) { planned_ = std::max(planned_, bytes); }
  std::uint64_t planned_bytes() const { return planned_; }
  std::uint64_t bytes_ahead() const { return arena::less(planned_, taken_); }

  const std::uint64_t total_bytes;
  arena::Budget budget;

 private:
  const config::Policy& policy_;
  const std::uint64_t memory_bytes_;
  std::uint64_t taken_ = 0;
  std::uint64_t peak_bytes_ = 0;
  std::uint64_t planned_ = 0;
};

// In the order of Workload::devices.
using SimulatedDevices = std::vector<std::unique_ptr<SimulatedDevice>>;

// Gives regions of a device to one arena, or pages where `page_bytes` > 0. Addresses begin at
// `first`. The addresses of regions that were given back are used again.
class SimulatedMemory : public arena::MemorySource {
 public:
  SimulatedMemory(SimulatedDevice& device, arena::Address first, std::uint64_t page_bytes)
      : device_(device), next_(first), page_bytes_(page_bytes) {}

  Region obtain(std::uint64_t bytes) noexcept override;
  void release(std::span<const Extent> regions) noexcept override;
  std::uint64_t page_bytes() const noexcept override { return page_bytes_; }
  Region reserve(std::uint64_t bytes) noexcept override;
  Region map(arena::Address base, std::uint64_t bytes) noexcept override;
  bool unmap(arena::Address base, std::uint64_t bytes) noexcept override;
  std::uint64_t bytes_ahead() const noexcept override { return device_.bytes_ahead(); }

  // Called when the context has ended: all that was taken is the device's again.
  void forget();
  void set_listener(GrowthListener* listener) { listener_ = listener; }

  std::uint64_t taken_bytes() const { return taken_; }
  std::uint64_t calls() const { return calls_; }

 private:
  bool take(arena::Address base, std::uint64_t bytes);
  void give(arena::Address base, std::uint64_t bytes);

  SimulatedDevice& device_;
  arena::Address next_;
  const std::uint64_t page_bytes_;
  GrowthListener* listener_ = nullptr;
  std::map<std::uint64_t, std::vector<arena::Address>> unused_;  // of regions given back, by size
  std::uint64_t taken_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace cubfc::replay
