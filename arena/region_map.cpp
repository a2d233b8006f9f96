#include "arena/region_map.h"

#include <algorithm>

namespace cubfc::arena {
namespace {

constexpr std::size_t kFewest = 8;

}  // namespace

void RegionMap::reserve(std::size_t count) {
  const std::size_t capacity = ever_.empty() ? 0 : ever_.back()->all.size();
  if (count > capacity) {
    ever_.push_back(std::make_unique<Entries>(std::max({count, kFewest, capacity * 2})));
  }
}

void RegionMap::assign(const std::vector<Region>& regions) noexcept {
  if (ever_.empty()) {
    return;  // there never was a region
  }
  const std::uint32_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  Entries& entries = *ever_.back();
  for (std::size_t i = 0; i < regions.size(); ++i) {
    entries.all[i].begin.store(regions[i].begin, std::memory_order_release);
    entries.all[i].end.store(regions[i].end, std::memory_order_release);
    entries.all[i].number.store(regions[i].number, std::memory_order_release);
  }
  entries.used.store(regions.size(), std::memory_order_release);
  current_.store(&entries, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

// While a writer changes the entries, the result may be wrong, but nothing outside of the entries
// is read. number_at() then searches again.
std::uint64_t RegionMap::search(Address address) const noexcept {
  const Entries* const entries = current_.load(std::memory_order_acquire);
  if (entries == nullptr) {
    return 0;
  }
  std::size_t first = 0;  // the answer lies in [first, first + left)
  for (std::size_t left = entries->used.load(std::memory_order_acquire); left > 0;) {
    const std::size_t half = left / 2;
    const Entry& middle = entries->all[first + half];
    if (address < middle.begin.load(std::memory_order_acquire)) {
      left = half;
    } else if (address < middle.end.load(std::memory_order_acquire)) {
      return middle.number.load(std::memory_order_acquire);
    } else {
      first += half + 1;
      left -= half + 1;
    }
  }
  return 0;
}

std::size_t RegionMap::host_bytes() const {
  std::size_t bytes = 0;
  for (const auto& entries : ever_) {
    bytes += entries->all.size() * sizeof(Entry);
  }
  return bytes;
}

}  // namespace cubfc::arena
