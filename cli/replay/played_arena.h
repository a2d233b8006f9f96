// The arena of one context, as it is while a workload is played.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "arena/arena.h"
#include "cli/replay/played_trace.h"
#include "cli/replay/simulated_device.h"

namespace cubfc::replay {

// Contexts that have memory at once; a process has a few for each device.
inline constexpr std::size_t kMostArenas = 4096;

// The library's arena on a simulated device, and the freed blocks that wait under
// CUBFC_FREE=deferred: no GPU works here, so they wait until as many have gathered as in the
// library, or until somebody needs memory. Writes to the trace what the arena takes and gives back,
// and what becomes of blocks that wait.
class PlayedArena : public GrowthListener {
 public:
  // `group`: whose memory it is. All must outlive it.
  PlayedArena(SimulatedDevice& its_device, std::uint32_t group, std::uint64_t page_bytes,
              PlayedTrace& trace);

  void grew(arena::Address base, std::uint64_t bytes) override;
  void shrank(arena::Address base, std::uint64_t bytes) override;

  // A free that waits for nothing.
  void retire(arena::Address address, std::uint64_t block_bytes);
  // The work before all but the last of the gathered blocks is done: they are free.
  void collect();
  // Waits for the oldest of them; false when none waits.
  bool wait();
  // The context is gone, with all of its memory.
  void end();

  SimulatedDevice& device;
  SimulatedMemory memory;
  arena::Arena arena;

 private:
  struct Epoch {
    arena::GatheredBlocks gathered;
    std::vector<std::pair<arena::Address, std::uint64_t>> blocks;  // only for a trace
  };

  void close_epoch();
  void reclaim_oldest();

  const std::uint32_t group_;
  PlayedTrace& trace_;
  Epoch open_;
  std::deque<Epoch> closed_;  // the oldest first
};

}  // namespace cubfc::replay
