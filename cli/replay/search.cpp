#include "cli/replay/search.h"

#include <algorithm>

#include "cli/replay/conditions.h"
#include "shim/patience.h"

namespace cubfc::replay {

// As in shim/source/, each pass asks for twice as much as the one before, up to kMostDoublings, and
// there are at most kMostPasses.
bool Search::finds_more(Waits waits) {
  const std::uint64_t of_device = need_.of_device ? device_.free_bytes() : kPlenty;
  const std::uint64_t of_limit = need_.counted ? device_.budget.left() : kPlenty;
  const std::uint64_t there = std::min(of_device, of_limit);
  const std::uint64_t lacking = there < need_.bytes ? need_.bytes - there : 0;
  if (tries_ == patience::kMostPasses || lacking > held_bytes()) {
    return false;
  }
  const int doublings = std::min(tries_++, patience::kMostDoublings);
  const std::uint64_t least = (lacking > 0 ? lacking : need_.bytes) << doublings;
  return give_back(least + growth_ - std::min(growth_, need_.bytes)) ||
         (waits == Waits::kYes && wait());
}

// The bytes that arenas have of the device and no live block uses.
std::uint64_t Search::held_bytes() const {
  std::uint64_t held = 0;
  for (const PlayedArena* const played : arenas_) {
    const arena::Stats stats = played->arena.stats();
    held += stats.free_bytes() + stats.bytes_retired;
  }
  return held;
}

bool Search::give_back(std::uint64_t bytes) {
  std::uint64_t released = 0;
  for (PlayedArena* const played : arenas_) {
    released += released < bytes ? played->arena.release_unused(bytes - released) : 0;
  }
  return released > 0;
}

bool Search::wait() {
  for (PlayedArena* const played : arenas_) {
    if (played->wait()) {
      ++waits_;
      return true;
    }
  }
  return false;
}

}  // namespace cubfc::replay
