// A memory source with pages that makes up addresses, for tests: a device of a set size that fails
// on command and checks that nothing is mapped twice or unmapped where nothing is.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "arena/memory_source.h"

namespace cubfc::arena {

class MadeUpPages : public MemorySource {
 public:
  MadeUpPages(std::uint64_t device_bytes, std::uint64_t page_bytes)
      : page_bytes_(page_bytes), free_(device_bytes) {}

  Region obtain(std::uint64_t /*bytes*/) noexcept override {
    ++wrong_calls;
    return {};
  }
  void release(std::span<const Extent> /*regions*/) noexcept override { ++wrong_calls; }

  std::uint64_t page_bytes() const noexcept override { return page_bytes_; }

  Region reserve(std::uint64_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    if (fails()) {
      return {0, 7, false};
    }
    const Address base = next_;
    next_ += bytes + page_bytes_;
    ranges_[base] = bytes;
    return {base, 0, false};
  }

  Region map(Address base, std::uint64_t bytes) noexcept override {
    if (before_map) {
      before_map();
    }
    const std::lock_guard lock(mutex_);
    if (fails()) {
      return {0, 7, false};
    }
    wrong_calls += is_reserved(base, bytes) ? 0 : 1;
    const std::uint64_t fresh = bytes - (bytes < spare_ ? bytes : spare_);
    if (fresh > free_) {
      spare_ += keeps_what_there_was ? std::exchange(free_, 0) : 0;
      return {0, 2, true};
    }
    free_ -= fresh;
    spare_ -= bytes - fresh;
    ++maps;
    for (Address page = base; page < base + bytes; page += page_bytes_) {
      wrong_calls += mapped_.insert(page).second ? 0 : 1;
    }
    return {base, 0, false};
  }

  bool unmap(Address base, std::uint64_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    if (fails()) {
      return false;
    }
    for (Address page = base; page < base + bytes; page += page_bytes_) {
      wrong_calls += mapped_.erase(page) == 1 ? 0 : 1;
    }
    spare_ += bytes;
    ++unmaps;
    return true;
  }

  void drop_spare() noexcept override {
    const std::lock_guard lock(mutex_);
    free_ += std::exchange(spare_, 0);
  }

  bool is_mapped(Address base, std::uint64_t bytes) const {
    const std::lock_guard lock(mutex_);
    for (Address page = round_down(base, page_bytes_); page < base + bytes; page += page_bytes_) {
      if (!mapped_.contains(page)) {
        return false;
      }
    }
    return true;
  }
  std::uint64_t mapped_bytes() const {
    const std::lock_guard lock(mutex_);
    return mapped_.size() * page_bytes_;
  }
  std::uint64_t free_bytes() const { return free_; }
  std::uint64_t spare_bytes() const noexcept override {
    const std::lock_guard lock(mutex_);
    return spare_;
  }
  std::size_t ranges() const { return ranges_.size(); }

  int wrong_calls = 0;
  int maps = 0;
  int unmaps = 0;
  long fail_after = -1;  // so many calls succeed, and one fails; -1: none fails
  std::function<void()> before_map;
  bool keeps_what_there_was = true;  // of a map() that it has too little for

 private:
  bool fails() { return fail_after >= 0 && fail_after-- == 0; }
  bool is_reserved(Address base, std::uint64_t bytes) const {
    const auto after = ranges_.upper_bound(base);
    return after != ranges_.begin() && base % page_bytes_ == 0 && bytes % page_bytes_ == 0 &&
           base + bytes <= std::prev(after)->first + std::prev(after)->second;
  }

  const std::uint64_t page_bytes_;
  mutable std::mutex mutex_;
  std::uint64_t free_;
  std::uint64_t spare_ = 0;
  Address next_ = 0x7e0000000000;
  std::map<Address, std::uint64_t> ranges_;
  std::set<Address> mapped_;
};

}  // namespace cubfc::arena
