// A request that lacks memory, as its sources see it (sources.h).
#pragma once

#include <cstdint>
#include <optional>

#include "shim/source/time_left.h"

namespace cubfc {

class MemorySources;
struct Device;

// What a request lacks when it fails.
struct Need {
  std::uint64_t bytes = 0;   // 0: only the driver knows how many
  bool of_device = true;     // of the device's memory; else at most of the limit
  bool counted = false;      // by the limit
  bool from_blocks = false;  // freed blocks serve it; else their memory must go back first
};

// The request, and what its sources share.
struct Request {
  const MemorySources& all;
  Device& device;
  const Need need;
  TimeLeft time_left = {};
  std::uint64_t from_processes = 0;  // bytes that others have given up for it
  int refused_with_enough = 0;       // times in a row, although the driver said it had so much

  // Whether the device, if it were empty, and the limit have so much.
  bool is_possible() const;
};

// One time that all sources are asked. Bytes.
struct Pass {
  std::optional<std::uint64_t> at_driver;  // free; nothing: there is no context in which to ask
  std::uint64_t least = 0;                 // to be given up at least
  std::uint64_t with_growth = 0;           // and so that the arena can grow as it would like
  bool is_enough = false;                  // if everything that is held were given
  // Rendezvous::changes() before the device and the other processes were looked at.
  std::optional<std::uint32_t> changes = {};

  // A process without a context asks for its first one: how much that takes only the driver knows,
  // and without a context nobody can ask it what is free.
  bool is_blind(const Need& need) const { return need.bytes == 0 && !at_driver; }
};

}  // namespace cubfc
