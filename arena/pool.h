// What an arena and its Growth share: the memory that the arena has, where that comes from, and the
// lock that guards it.
#pragma once

#include <cstdint>

#include "arena/budget.h"
#include "arena/counts.h"
#include "arena/lock.h"
#include "arena/memory_source.h"
#include "arena/regions.h"
#include "arena/source_calls.h"

namespace cubfc::arena {

struct Pool {
  Pool(MemorySource& takes_from, Budget& under) : source(takes_from), budget(under) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // To be called when memory has come or gone, and after a failure.
  void write_resized() noexcept { counts.write_resized(regions); }

  MemorySource& source;
  Budget& budget;
  mutable Lock lock;  // guards all below, but for Regions::number_at()
  Counts counts;
  Regions regions;
  SourceCalls calls;
  std::uint64_t generation = 1;  // raised when all memory is gone: see Arena::abandon()
};

}  // namespace cubfc::arena
