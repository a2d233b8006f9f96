// The arena of one context while a workload is played.
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

// The most contexts that may have an arena at once; a process has a few for each device.
inline constexpr std::size_t kMostArenas = 4096;

// Has the library's arena on a simulated device, and the freed blocks that wait under
// CUBFC_FREE=deferred. An epoch of them is closed when it is full (arena::Arena::gather()). There
// is no GPU whose work could end, so the blocks of a closed epoch wait until the next one is
// closed, or until a request lacks memory. Writes to the trace what the arena takes and gives back,
// and when blocks are retired and reclaimed.
class PlayedArena : public GrowthListener {
 public:
  // `group`: the group that the arena serves. All must outlive the object.
  PlayedArena(SimulatedDevice& its_device, std::uint32_t group, std::uint64_t page_bytes,
              PlayedTrace& trace);

  void grew(arena::Address base, std::uint64_t bytes) override;
  void shrank(arena::Address base, std::uint64_t bytes) override;

  // Frees a live block under CUBFC_FREE=deferred: it waits.
  void retire(arena::Address address, std::uint64_t block_bytes);
  // Makes the blocks of all closed epochs but the last free, as if the work before them were done.
  void collect();
  // Makes the blocks of the oldest epoch free; closes the open epoch first if no other is there.
  // False when no block waits.
  bool wait();
  // Called when the context has ended: its memory is the device's again.
  void end();

  SimulatedDevice& device;
  SimulatedMemory memory;
  arena::Arena arena;

 private:
  struct Epoch {
    arena::GatheredBlocks gathered;
    std::vector<std::pair<arena::Address, std::uint64_t>> blocks;  // filled only for a trace
  };

  void close_epoch();
  void reclaim_oldest();

  const std::uint32_t group_;
  PlayedTrace& trace_;
  Epoch open_;
  std::deque<Epoch> closed_;  // the oldest first
};

}  // namespace cubfc::replay
