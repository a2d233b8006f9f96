// Watches an arena as cubfc does, and works out from what it is told what the arena's figures must
// be.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "arena/arena.h"

namespace cubfc::arena {

class Watching : public Observer {
 public:
  explicit Watching(Arena& arena) : arena_(arena) { arena.observe(figures_, *this, peaks_); }

  void exceeded() noexcept override {
    const std::uint64_t granules = read(figures_.granules_in_use);
    put(figures_.look_at, granules);
    put(peaks_, read(peaks_) + 1);
    peak_ = granules * kGranuleBytes;
  }
  void changed() noexcept override { is_told_ = true; }
  void resized() noexcept override {
    ++resized_;
    is_told_ = true;
  }
  bool records() const noexcept override { return true; }

  void allocated(Address address, std::uint64_t bytes, std::uint64_t padding,
                 Caller caller) noexcept override {
    told_ += blocks_.contains(address) ? "two blocks at one address\n" : "";
    blocks_[address] = {bytes + padding, caller, false};
    in_use_ += bytes + padding;
    by_caller_[caller] += bytes + padding;
    ++allocations_;
    if (in_use_ > most_) {
      most_ = in_use_;
      at_most_ = by_caller_;
    }
  }
  void freed(const FreedBlock& block) noexcept override {
    if (is_there(block, false)) {
      ++frees_;
      forget(block);
    }
  }
  void retired(const FreedBlock& block) noexcept override {
    if (is_there(block, false)) {
      ++frees_;
      blocks_[block.address].retired = true;
      retired_ += block.bytes;
    }
  }
  void reclaimed(std::span<const FreedBlock> blocks) noexcept override {
    for (const FreedBlock& block : blocks) {
      if (is_there(block, true)) {
        retired_ -= block.bytes;
        forget(block);
      }
    }
  }
  void grew(Address /*address*/, std::uint64_t bytes) noexcept override { taken_ += bytes; }
  void shrank(Address /*address*/, std::uint64_t bytes) noexcept override { taken_ -= bytes; }
  void abandoned() noexcept override {
    blocks_.clear();
    in_use_ = retired_ = taken_ = 0;
    by_caller_ = {};
  }

  // What does not agree; empty if all does. Watches the arena until the next time.
  std::string disagreement() const {
    std::string text = told_;
    text += is_told_ || arena_.unused_bytes() == unused_
                ? ""
                : "what the arena does not use has changed, and whoever watches was not told\n";
    arena_.watch();
    is_told_ = false;
    unused_ = arena_.unused_bytes();
    const Stats stats = arena_.stats();
    const auto must = [&](std::uint64_t a, std::uint64_t b, const char* what) {
      text += a == b ? ""
                     : std::string(what) + ": " + std::to_string(a) + " and " + std::to_string(b) +
                           "\n";
    };
    must(figures_.bytes_in_use(), in_use_, "in use, by figures and events");
    must(stats.bytes_in_use, in_use_, "in use, by statistics and events");
    must(figures_.bytes_retired(), retired_, "retired");
    must(figures_.num_allocs(), allocations_, "allocations");
    must(read(figures_.num_frees), frees_, "frees");
    must(read(figures_.pool_bytes), taken_, "taken");
    must(stats.pool_bytes, taken_, "taken, by statistics");
    must(peak_, most_, "peak");
    must(stats.peak_bytes_in_use, most_, "peak, by statistics");
    for (std::size_t i = 0; i < kCallers; ++i) {
      must(read(figures_.callers[i].has) * kGranuleBytes, by_caller_[i], "of a caller");
      must(figures_.callers[i].at_peak(read(peaks_)) * kGranuleBytes, at_most_[i],
           "of a caller at the peak");
    }
    return text;
  }
  std::uint64_t resized() const { return resized_; }

 private:
  struct Known {
    std::uint64_t bytes;
    Caller caller;
    bool retired;
  };
  bool is_there(const FreedBlock& block, bool retired) {
    const auto found = blocks_.find(block.address);
    const bool fits = found != blocks_.end() && found->second.bytes == block.bytes &&
                      found->second.retired == retired;
    told_ += fits ? "" : "a free of what is not there, or of another size\n";
    return fits;
  }
  void forget(const FreedBlock& block) {
    const auto found = blocks_.find(block.address);
    in_use_ -= block.bytes;
    by_caller_[found->second.caller] -= block.bytes;
    blocks_.erase(found);
  }

  Arena& arena_;
  Figures figures_{};
  Figure peaks_{};
  std::uint64_t peak_ = 0;  // by exceeded()
  std::uint64_t resized_ = 0;
  mutable bool is_told_ = true;       // since it was last watched
  mutable std::uint64_t unused_ = 0;  // by the arena then
  std::string told_;
  std::map<Address, Known> blocks_;
  std::uint64_t in_use_ = 0;
  std::uint64_t retired_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t allocations_ = 0;
  std::uint64_t frees_ = 0;
  std::uint64_t most_ = 0;
  std::array<std::uint64_t, kCallers> by_caller_{};
  std::array<std::uint64_t, kCallers> at_most_{};
};

}  // namespace cubfc::arena
