// What one place has of the device, stretch by stretch, as it grows and shrinks. Knows events and
// regions, no blocks.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cli/report/history.h"

namespace cubfc::report {

class Taken {
 public:
  // Adds to `regions`, which others add to as well. Without addresses a stretch is known by its
  // handle alone.
  Taken(std::vector<Region>& regions, bool has_addresses)
      : regions_(&regions), has_addresses_(has_addresses) {}

  // False: part of it was there already. What is new is added.
  bool grow(std::uint32_t number, const recordings::Event& event);
  // False: part of it was not there. What was is gone; what is left of a stretch stays.
  bool shrink(std::uint32_t number, const recordings::Event& event);
  // All of it is gone.
  void end(std::uint32_t number);

  // Whether all of it is there now, in one stretch or in several that touch.
  [[nodiscard]] bool covers(std::uint64_t from, std::uint64_t to) const;
  [[nodiscard]] bool ever_grown() const { return ever_grown_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  // Like another, but from `from` to `to`, from an event on.
  void add(std::uint32_t number, Region region, std::uint64_t from, std::uint64_t to);
  void remove(std::uint32_t number, std::uint32_t index);
  // The bytes of [from, to) that were there and are gone now.
  std::uint64_t cut(std::uint32_t number, std::uint64_t from, std::uint64_t to);

  std::vector<Region>* regions_;
  std::map<std::uint64_t, std::uint32_t> now_;  // address to region
  std::uint64_t bytes_ = 0;
  bool has_addresses_;
  bool ever_grown_ = false;
};

// For places (true) that never told what they took: the stretches in which their blocks were.
void add_regions_seen(History& history, const std::vector<bool>& places);

}  // namespace cubfc::report
