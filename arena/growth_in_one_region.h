// How an arena grows that preallocates in one region, as XLA does: first that region, then by
// regions.
#pragma once

#include "arena/growth_by_regions.h"

namespace cubfc::arena {

class GrowthInOneRegion final : public GrowthByRegions {
 public:
  using GrowthByRegions::GrowthByRegions;

  Outcome grow(Locked& lock, std::uint64_t request) override;

 private:
  Outcome preallocate(Locked& lock, std::uint64_t least_bytes);
};

}  // namespace cubfc::arena
