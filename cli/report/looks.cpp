#include "cli/report/looks.h"

#include <algorithm>
#include <map>

#include "cli/report/sweep.h"

namespace cubfc::report {
namespace {

using recordings::Recording;

constexpr std::size_t kSamples = 400;
// The most blocks that all samples may visit: each visits all live blocks, so there are fewer
// samples where many are live.
constexpr std::uint64_t kBlocksLookedAt = 20'000'000;

struct At {
  std::uint32_t place;
  std::uint64_t address;
  bool operator<(const At& other) const {
    return place != other.place ? place < other.place : address < other.address;
  }
};

// Goes forward through a history, and knows the live blocks and the regions at each event.
class Looker {
 public:
  Looker(const Recording& recording, const History& history)
      : history_(history), sweep_(history), region_changes_(region_changes(history)) {
    for (const recordings::Place& place : recording.places) {
      has_addresses_.push_back(has_addresses(place.memory));
      device_of_place_.push_back(place.device);
    }
  }

  void forward_to(std::uint32_t event) {
    sweep_.forward_to(
        event,
        [this](std::uint32_t index) {
          const Block& block = history_.blocks[index];
          in_use_[kAll] += block.held();
          in_use_[device_of_place_[block.place]] += block.held();
          live_[{block.place, block.address}] = index;
        },
        [this](std::uint32_t index) {
          const Block& block = history_.blocks[index];
          in_use_[kAll] -= block.held();
          in_use_[device_of_place_[block.place]] -= block.held();
          live_.erase({block.place, block.address});
        });
    for (; next_region_ < region_changes_.size() && region_changes_[next_region_].event <= event;
         ++next_region_) {
      change(region_changes_[next_region_]);
    }
  }

  // Of the device of this number, or of all devices.
  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  [[nodiscard]] std::uint64_t in_use(std::uint64_t device = kAll) { return in_use_[device]; }
  [[nodiscard]] std::uint64_t taken(std::uint64_t device = kAll) { return taken_[device]; }
  [[nodiscard]] std::size_t live() const { return live_.size(); }

  [[nodiscard]] Gaps gaps(std::uint64_t device = kAll) const {
    Gaps gaps;
    auto block = live_.begin();
    for (auto region = regions_.begin(); region != regions_.end();) {
      const std::uint32_t place = region->first.place;
      if (device != kAll && device_of_place_[place] != device) {
        ++region;
        continue;
      }
      std::uint64_t free_from = region->first.address;
      std::uint64_t end = free_from + region->second.bytes;
      const bool apart = region->second.apart;
      for (++region; region != regions_.end() && region->first.place == place &&
                     region->first.address <= end && !apart && !region->second.apart;
           ++region) {
        end = std::max(end, region->first.address + region->second.bytes);
      }
      while (block != live_.end() && block->first < At{place, free_from}) {
        free_from = block->first.place == place ? std::max(free_from, end_of(*block)) : free_from;
        ++block;
      }
      for (; block != live_.end() && block->first < At{place, end}; ++block) {
        add_gap(gaps, free_from, block->first.address);
        free_from = std::max(free_from, end_of(*block));
      }
      add_gap(gaps, free_from, end);
    }
    return gaps;
  }

 private:
  void change(const RegionChange& change) {
    const Region& region = history_.regions[change.region];
    for (const std::uint64_t of : {kAll, std::uint64_t{device_of_place_[region.place]}}) {
      taken_[of] += change.begins ? region.bytes : 0;
      taken_[of] -= change.begins ? 0 : region.bytes;
    }
    if (!has_addresses_[region.place]) {
      return;
    }
    if (change.begins) {
      regions_[{region.place, region.address}] = region;
    } else {
      const auto there = regions_.find({region.place, region.address});
      if (there != regions_.end()) {
        regions_.erase(there);
      }
    }
  }

  [[nodiscard]] std::uint64_t end_of(const std::pair<const At, std::uint32_t>& live) const {
    return live.first.address + history_.blocks[live.second].held();
  }

  static void add_gap(Gaps& gaps, std::uint64_t from, std::uint64_t to) {
    if (to > from) {
      gaps.free_bytes += to - from;
      ++gaps.pieces;
      gaps.largest_bytes = std::max(gaps.largest_bytes, to - from);
    }
  }

  const History& history_;
  BlockSweep sweep_;
  std::vector<RegionChange> region_changes_;
  std::size_t next_region_ = 0;
  std::vector<bool> has_addresses_;
  std::map<At, std::uint32_t> live_;
  std::map<At, Region> regions_;
  std::vector<std::uint32_t> device_of_place_;
  std::map<std::uint64_t, std::uint64_t> in_use_;
  std::map<std::uint64_t, std::uint64_t> taken_;
};

// Events at equal distances, with the first, the last and the peak among them.
std::vector<std::uint32_t> sampled_events(std::size_t events, std::uint32_t peak) {
  std::vector<std::uint32_t> sampled;
  const std::size_t count = std::min(events, kSamples);
  for (std::size_t n = 1; n <= count; ++n) {
    sampled.push_back(static_cast<std::uint32_t>(events * n / count - 1));
  }
  if (events > 0) {
    sampled.push_back(0);
    sampled.push_back(peak == kNever ? 0 : peak);
  }
  std::sort(sampled.begin(), sampled.end());
  sampled.erase(std::unique(sampled.begin(), sampled.end()), sampled.end());
  return sampled;
}

}  // namespace

void add_looks(const Recording& recording, const History& history, Figures& figures) {
  Looker looker{recording, history};
  std::uint64_t looked_at = 0;
  std::size_t failure = 0;
  const auto look_at_failures_until = [&](std::uint32_t event) {
    for (; failure < figures.failures.size() && figures.failures[failure].event <= event;
         ++failure) {
      Failure& at = figures.failures[failure];
      looker.forward_to(at.event);
      const std::uint32_t place = recording.event(at.event).place;
      const std::uint64_t device =
          place < recording.places.size() ? recording.places[place].device : Looker::kAll;
      at.in_use_bytes = looker.in_use(device);
      at.taken_bytes = looker.taken(device);
      if (failure < kFailuresLookedAt) {
        at.gaps = looker.gaps(device);
      }
    }
  };
  const std::size_t events = history.times_ns.size();
  const std::uint32_t peak = figures.whole.in_use.event;
  for (const std::uint32_t event : sampled_events(events, peak)) {
    look_at_failures_until(event);
    looker.forward_to(event);
    looked_at += looker.live();
    const bool too_many = looked_at > kBlocksLookedAt * (event + 1) / events;
    if (too_many && event + 1 != events && event != peak) {
      looked_at -= looker.live();
      continue;
    }
    figures.samples.push_back({event, looker.in_use(), looker.taken(), looker.gaps()});
    if (event == peak) {
      figures.at_peak.gaps = figures.samples.back().gaps;
    }
    if (event + 1 == events) {
      figures.at_end.gaps = figures.samples.back().gaps;
    }
  }
}

}  // namespace cubfc::report
