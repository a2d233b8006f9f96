// A request that lacks memory, as its sources see it (sources.h).
#pragma once

#include <cstdint>
#include <optional>

#include "shim/source/time_left.h"

namespace cubfc {

class MemorySources;
struct Device;

// What a request needs.
struct Need {
  std::uint64_t bytes = 0;   // 0: only the driver knows how many
  bool of_device = true;     // takes memory of the device; managed memory may not
  bool counted = false;      // the limit counts it
  bool from_blocks = false;  // freed blocks can serve it; else their memory must go back first
};

// The request, and what its sources share.
struct Request {
  const MemorySources& all;
  Device& device;
  const Need need;
  TimeLeft time_left = {};
  std::uint64_t from_processes = 0;  // bytes that other processes have given up for it
  int refused_with_enough = 0;       // refusals in a row though the driver said it had enough

  // Whether the device, if it were empty, would have enough, and the limit has enough left.
  bool is_possible() const;
};

// One pass over all sources. Figures in bytes.
struct Pass {
  std::optional<std::uint64_t> at_driver;  // free; nothing: no context in which to ask
  std::uint64_t least = 0;                 // to be given back at least
  std::uint64_t with_growth = 0;           // the same, if the arena grows as it would like
  bool is_enough = false;                  // if the sources gave all that they have
  // Rendezvous::changes() before the device and the other processes were looked at.
  std::optional<std::uint32_t> changes = {};

  // Whether a process without a context requests its first one. How much memory that takes only the
  // driver knows, and without a context the driver cannot be asked what is free.
  bool is_blind(const Need& need) const { return need.bytes == 0 && !at_driver; }
};

}  // namespace cubfc
