// What is said of an allocation that failed for lack of memory: what was asked, who holds what,
// why, and what would help. Everything that is said is passed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "config/policy.h"
#include "shim/tell/failure_cause.h"
#include "shim/tell/figures.h"

namespace cubfc {

struct OutOfMemory {
  int device;
  const char* function;  // as the program called it
  FailedRequestFacts facts;

  arena::Stats stats;  // of the arena that was asked, or that holds most of the device
  std::vector<arena::BlockSnapshot> blocks;  // of that arena
  struct Part {
    std::uint64_t bytes;
    const char* what;
  };
  std::vector<Part> outside;  // what the program holds beside arenas
  struct Neighbour {
    std::int32_t pid;
    std::string program;
    std::uint64_t bytes_taken;
  };
  std::vector<Neighbour> neighbours;         // other processes on the device, the most first
  std::vector<figures::CallerPart> callers;  // who asked for what is in use, the most first
};

// "GPU 0, pid 4711 (python train.py), thread 4720"
std::string who(const OutOfMemory& failure);
std::string in_a_line(const config::Policy& policy, const OutOfMemory& failure, Cause cause);
// Several lines, without an end of line after the last.
std::string in_full(const config::Policy& policy, const OutOfMemory& failure, Cause cause);
// All of it as one JSON object, with an end of line. Throws std::bad_alloc.
std::string out_of_memory_json(const config::Policy& policy, const OutOfMemory& failure);

// The blocks of an arena drawn in `columns` characters: '*' in use, 'x' partly, '_' free.
std::string draw_map(const std::vector<arena::BlockSnapshot>& blocks, std::size_t columns);

}  // namespace cubfc
