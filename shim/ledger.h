// Allocations that went to the driver one by one: what each holds of which budget.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "shim/contexts.h"

namespace cubfc {

// Thread-safe.
class Ledger {
 public:
  struct Entry {
    std::uint64_t bytes;
    Context* context;
    std::uint64_t context_id;
  };
  struct Totals {
    std::uint64_t allocations = 0;
    std::uint64_t frees = 0;
    std::uint64_t failures = 0;
    std::uint64_t bytes = 0;
    std::uint64_t peak_bytes = 0;
  };

  // What was entered there before is gone: the driver gives no address twice. Throws
  // std::bad_alloc and is unchanged then.
  void add(CUdeviceptr address, const Entry& entry) {
    const std::lock_guard lock(mutex_);
    const auto [place, fresh] = entries_.try_emplace(address, entry);
    if (!fresh) {
      place->second.context->device.budget.give(place->second.bytes);
      totals_.bytes -= place->second.bytes;
      place->second = entry;
    }
    ++totals_.allocations;
    totals_.bytes += entry.bytes;
    totals_.peak_bytes = std::max(totals_.peak_bytes, totals_.bytes);
  }

  // Nothing when the address is not known: not every pointer that is freed was allocated through
  // us.
  std::optional<Entry> remove(CUdeviceptr address) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(address);
    if (found == entries_.end()) {
      return std::nullopt;
    }
    const Entry entry = found->second;
    entries_.erase(found);
    ++totals_.frees;
    totals_.bytes -= entry.bytes;
    return entry;
  }

  // Undoes remove(). Without host memory for it the bytes stay taken: the limit is kept.
  void put_back(CUdeviceptr address, const Entry& entry) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      entries_.insert_or_assign(address, entry);
    } catch (...) {
      return;
    }
    --totals_.frees;
    totals_.bytes += entry.bytes;
  }

  // The context's memory is gone.
  void context_ended(std::uint64_t context_id) {
    const std::lock_guard lock(mutex_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      if (entry->second.context_id == context_id) {
        entry->second.context->device.budget.give(entry->second.bytes);
        totals_.bytes -= entry->second.bytes;
        entry = entries_.erase(entry);
      } else {
        ++entry;
      }
    }
  }

  void failed() {
    const std::lock_guard lock(mutex_);
    ++totals_.failures;
  }

  Totals totals() const {
    const std::lock_guard lock(mutex_);
    return totals_;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<CUdeviceptr, Entry> entries_;
  Totals totals_;
};

}  // namespace cubfc
