#include "cli/report/regions.h"

#include <algorithm>
#include <tuple>

namespace cubfc::report {
namespace {

using recordings::Event;

// Blocks that are no farther from each other than this are taken to lie in one region.
constexpr std::uint64_t kNear = std::uint64_t{2} << 20;

}  // namespace

void Taken::add(std::uint32_t number, Region region, std::uint64_t from, std::uint64_t to) {
  if (from >= to) {
    return;
  }
  now_[from] = static_cast<std::uint32_t>(regions_->size());
  region.address = from;
  region.bytes = to - from;
  region.begin = number;
  region.end = kNever;
  regions_->push_back(region);
  bytes_ += to - from;
}

void Taken::remove(std::uint32_t number, std::uint32_t index) {
  (*regions_)[index].end = number;
  bytes_ -= (*regions_)[index].bytes;
}

std::uint64_t Taken::cut(std::uint32_t number, std::uint64_t from, std::uint64_t to) {
  std::uint64_t gone = 0;
  auto next = now_.upper_bound(from);
  if (next != now_.begin()) {
    --next;
  }
  while (next != now_.end() && next->first < to) {
    const std::uint32_t index = next->second;
    const Region old = (*regions_)[index];
    const std::uint64_t begin = old.address;
    const std::uint64_t end = begin + old.bytes;
    if (end <= from) {
      ++next;
      continue;
    }
    remove(number, index);
    next = now_.erase(next);
    gone += std::min(end, to) - std::max(begin, from);
    add(number, old, begin, from);
    add(number, old, to, end);
  }
  return gone;
}

bool Taken::grow(std::uint32_t number, const Event& event) {
  ever_grown_ = true;
  const std::uint64_t end = event.address + event.bytes;
  Region region;
  region.place = event.place;
  region.apart = event.apart;
  if (has_addresses_) {
    const bool is_new = cut(number, event.address, end) == 0;
    add(number, region, event.address, end);
    return is_new;
  }
  const auto there = now_.find(event.address);
  if (there != now_.end()) {
    remove(number, there->second);
  }
  const bool is_new = there == now_.end();
  add(number, region, event.address, end);
  return is_new;
}

bool Taken::shrink(std::uint32_t number, const Event& event) {
  if (has_addresses_) {
    return cut(number, event.address, event.address + event.bytes) == event.bytes;
  }
  const auto there = now_.find(event.address);
  if (there == now_.end()) {
    return false;
  }
  remove(number, there->second);
  now_.erase(there);
  return true;
}

bool Taken::covers(std::uint64_t from, std::uint64_t to) const {
  auto next = now_.upper_bound(from);
  if (next == now_.begin()) {
    return from >= to;
  }
  for (--next; from < to; ++next) {
    if (next == now_.end() || next->first > from) {
      return false;
    }
    const std::uint64_t end = next->first + (*regions_)[next->second].bytes;
    if (end <= from) {
      return false;
    }
    from = end;
  }
  return true;
}

void Taken::end(std::uint32_t number) {
  for (const auto& [address, index] : now_) {
    remove(number, index);
  }
  now_.clear();
}

void add_regions_seen(History& history, const std::vector<bool>& places) {
  struct Stretch {
    std::uint32_t place;
    std::uint64_t from, to;
    bool operator<(const Stretch& other) const {
      return std::tie(place, from) < std::tie(other.place, other.from);
    }
  };
  std::vector<Stretch> seen;
  for (const Block& block : history.blocks) {
    if (places[block.place]) {
      seen.push_back({block.place, block.address, block.address + block.held()});
    }
  }
  std::sort(seen.begin(), seen.end());
  for (std::size_t next = 0; next < seen.size();) {
    Stretch all = seen[next];
    while (++next < seen.size() && seen[next].place == all.place &&
           (seen[next].from <= all.to || seen[next].from - all.to <= kNear)) {
      all.to = std::max(all.to, seen[next].to);
    }
    if (all.to > all.from) {
      history.regions.push_back({all.from, all.to - all.from, 0, kNever, all.place, true, false});
    }
  }
}

}  // namespace cubfc::report
