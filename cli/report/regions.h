// The regions that one place has of the device, as it grows and shrinks. Knows events and regions,
// no blocks.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cli/report/history.h"

namespace cubfc::report {

class Taken {
 public:
  // Adds to `regions`, to which other objects add, too. Without addresses a region is known only by
  // its handle.
  Taken(std::vector<Region>& regions, bool has_addresses)
      : regions_(&regions), has_addresses_(has_addresses) {}

  // Takes a kGrow. False if a part of the memory was there already.
  bool grow(std::uint32_t number, const recordings::Event& event);
  // Takes a kShrink, which may cut a part out of a region. False if a part of the memory was not
  // there.
  bool shrink(std::uint32_t number, const recordings::Event& event);
  // Takes a kEndPlace: all regions end.
  void end(std::uint32_t number);

  // Whether all of [from, to) is there now, in one region or in several that touch.
  [[nodiscard]] bool covers(std::uint64_t from, std::uint64_t to) const;
  [[nodiscard]] bool ever_grown() const { return ever_grown_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  // Adds a region like `region`, but from address `from` to address `to`, from the event `number`
  // on.
  void add(std::uint32_t number, Region region, std::uint64_t from, std::uint64_t to);
  void remove(std::uint32_t number, std::uint32_t index);
  // Removes [from, to) from all regions. Returns how many bytes of it were there.
  std::uint64_t cut(std::uint32_t number, std::uint64_t from, std::uint64_t to);

  std::vector<Region>* regions_;
  std::map<std::uint64_t, std::uint32_t> now_;  // from address to the region's index
  std::uint64_t bytes_ = 0;
  bool has_addresses_;
  bool ever_grown_ = false;
};

// For the places that are true in `places`, of which no kGrow was recorded: adds regions where
// their blocks were, with seen_only.
void add_regions_seen(History& history, const std::vector<bool>& places);

}  // namespace cubfc::report
