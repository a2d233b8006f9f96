// What waits is kept in epochs, whose blocks are free when their fence has passed. Plain frees
// gather in an open epoch, whose fence, for all work on the device, is made when it is closed. A
// free in a stream's order is a closed epoch with a fence at once, in the lane of its stream.
// FreedBlocks has them all, under its lock.
#pragma once

#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "shim/device/server.h"
#include "shim/driver/stream_id.h"
#include "shim/wait/fences.h"

namespace cubfc::freed {

// A stream in whose order something was freed, while its context has the id.
struct Order {
  Context* context = nullptr;  // the stream's; else all work on the device is meant
  std::uint64_t id = 0;        // of the context
  StreamId stream = {0, 0};
  // clang-tidy 14 sees a 0 in what the compiler makes of it.
  auto operator<=>(const Order&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct Lane;
struct Epoch;
using Epochs = std::list<Epoch>;  // nodes are moved, so that only adding needs memory
using BySize = std::multimap<std::uint64_t, Epochs::iterator>;
struct Block {
  Context* context;
  Server::Retired retired;
};
struct Gathered {
  Context* context;
  arena::GatheredBlocks blocks;
};
struct Epoch {
  Epoch() : hand(1, this) {}
  // Whether it has a block of this context, or of any if it is nullptr.
  bool has_any_of(const Context* context) const;
  bool empty() const { return blocks.empty() && gathered.empty(); }

  Lane* lane = nullptr;
  std::vector<Block> blocks;
  std::vector<Gathered> gathered;  // and what arenas have gathered
  std::uint64_t bytes = 0;         // of `blocks`
  std::uint64_t plain_bytes = 0;   // of all, if cuMemFree has freed them; once it is closed
  std::vector<Context*> others;    // that it was freed in, and that may not use the device's memory
  std::uint64_t number = 0;        // in the order in which epochs begin
  std::uint64_t covered = 0;       // by the last cover()
  bool in_hand = false;
  bool stuck = false;      // the driver could not tell about its fence when it was asked last
  std::list<Epoch*> hand;  // its node for in_hand_, while it is not there
  // Of one block that its stream may take back: where it finds it.
  std::optional<BySize::iterator> by_size = std::nullopt;
  Fence fence = {};
};

struct Lane {
  Lane() : turn(1, this) {}
  Epochs closed;  // oldest first
  BySize by_size;
  int in_hand = 0;        // of its epochs
  std::list<Lane*> turn;  // its node for turns_, while it is not there
};

}  // namespace cubfc::freed
