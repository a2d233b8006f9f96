// Memory that the driver serves and that we count: which address or handle holds which claim.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "shim/limit/claim.h"

namespace cubfc {

// Thread-safe.
template <typename Key>
class Ledger {
 public:
  struct Entry {
    Claim claim;
    std::uint64_t context_id;  // with which the memory goes; 0: with none
    bool relaxed = false;      // it is freed in the relaxed capture mode
  };
  struct Totals {
    std::uint64_t allocations = 0;
    std::uint64_t frees = 0;
    std::uint64_t bytes = 0;
  };

  // An older entry of the key is replaced: its memory is gone, the driver gives nothing twice.
  // Throws std::bad_alloc; the entry is then not there, and its claim may have ended.
  void add(Key key, Entry&& entry) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t bytes = entry.claim.bytes();
    auto found = entries_.find(key);
    if (found != entries_.end()) {
      totals_.bytes -= found->second.claim.bytes();
      found->second = std::move(entry);
    } else {
      found = entries_.emplace(key, std::move(entry)).first;
    }
    found->second.claim.begin_use(number_of(key));
    ++totals_.allocations;
    totals_.bytes += bytes;
  }

  // Nothing when the key is not known: not all that is freed was allocated through us.
  std::optional<Entry> remove(Key key) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) {
      return std::nullopt;
    }
    std::optional<Entry> entry(std::move(found->second));
    entries_.erase(found);
    entry->claim.end_use();
    ++totals_.frees;
    totals_.bytes -= entry->claim.bytes();
    return entry;
  }

  // Undoes remove(). Without host memory for it the bytes stay taken: the limit is kept.
  void put_back(Key key, Entry&& entry) noexcept {
    const std::lock_guard lock(mutex_);
    const std::uint64_t bytes = entry.claim.bytes();
    entry.claim.go_on_with_use();
    try {
      entries_.insert_or_assign(key, std::move(entry));
    } catch (...) {
      entry.claim.leave();
      return;
    }
    --totals_.frees;
    totals_.bytes += bytes;
  }

  // The context's memory is gone.
  void forget_context(std::uint64_t context_id) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const auto& each) {
      const bool gone = each.second.context_id == context_id;
      totals_.bytes -= gone ? each.second.claim.bytes() : 0;
      return gone;
    });
  }

  Totals totals() const {
    const std::lock_guard lock(mutex_);
    return totals_;
  }

 private:
  static std::uint64_t number_of(std::uint64_t address) { return address; }
  static std::uint64_t number_of(const void* /*handle*/) { return 0; }  // no address

  mutable std::mutex mutex_;
  std::unordered_map<Key, Entry> entries_;
  Totals totals_;
};

}  // namespace cubfc
