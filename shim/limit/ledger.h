// For memory that the driver serves and cubfc counts: which claim belongs to which address or
// handle.
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
    std::uint64_t context_id;  // the memory goes when this context ends; 0: it stays
    bool relaxed = false;      // must be freed in the relaxed capture mode
  };
  struct Totals {
    std::uint64_t allocations = 0;
    std::uint64_t frees = 0;
    std::uint64_t bytes = 0;
  };

  // Replaces an older entry of the same key: the driver has given the address again, so the older
  // memory is gone. Throws std::bad_alloc; the entry is then not there, and its claim may have
  // ended.
  void add(Key key, Entry&& entry) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t bytes = entry.claim.bytes();
    auto found = entries_.find(key);
    if (found != entries_.end()) {
      totals_.bytes -= found->second.claim.bytes();
      ++totals_.frees;
      found->second = std::move(entry);
    } else {
      found = entries_.emplace(key, std::move(entry)).first;
    }
    found->second.claim.begin_use(number_of(key));
    ++totals_.allocations;
    totals_.bytes += bytes;
  }

  // Called before the driver frees the memory. Returns nothing when the key is not known: the
  // program also frees memory that it did not allocate through cubfc.
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

  // Undoes remove(), when the driver has not freed the memory. If the host has no memory for the
  // entry, the bytes stay taken for good, so that the limit holds.
  void put_back(Key key, Entry&& entry) noexcept {
    const std::lock_guard lock(mutex_);
    const std::uint64_t bytes = entry.claim.bytes();
    entry.claim.go_on_with_use();
    try {
      entries_.reserve(entries_.size() + 1);  // so that what may fail comes before the move
      entries_.insert_or_assign(key, std::move(entry));
    } catch (...) {
      entry.claim.leave();
      return;
    }
    --totals_.frees;
    totals_.bytes += bytes;
  }

  // Called when the context has ended: its memory is gone.
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
