// Freed blocks that wait for work are kept in epochs: the blocks of an epoch are free when its
// fence has passed. Blocks of plain frees gather in the open epoch, which gets a fence for all work
// on the device when it is closed. A block that is freed in the order of a stream has an epoch of
// its own, in the lane of that stream. This epoch is closed and has its fence from the beginning.
// FreedBlocks has all epochs, under its lock.
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

// A stream in whose order blocks were freed. When a context of the driver's has ended, its Context
// object may be used again for a later one, which has another id. So an Order names a stream only
// while `context` has the id `id`.
struct Order {
  Context* context = nullptr;  // the stream's; nullptr: all work on the device is meant
  std::uint64_t id = 0;        // of the context
  StreamId stream = {0, 0};
  // The compiler generates code with a 0 here, and clang-tidy 14 believes that this 0 is a null
  // pointer.
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
  // Whether the epoch has a block of this context; if `context` is nullptr, of any context.
  bool has_any_of(const Context* context) const;
  bool empty() const { return blocks.empty() && gathered.empty(); }

  Lane* lane = nullptr;
  std::vector<Block> blocks;
  std::vector<Gathered> gathered;  // and what arenas have gathered
  std::uint64_t bytes = 0;         // of `blocks`
  std::uint64_t plain_bytes = 0;   // of all that cuMemFree has freed; set when it is closed
  // The contexts that were current when a block of this epoch was freed, and that are not allowed
  // to use the device's memory (Context::may_use()). The epoch waits for their work, too.
  std::vector<Context*> others;
  std::uint64_t number = 0;   // in the order in which epochs begin
  std::uint64_t covered = 0;  // the mark that the last cover() gave it
  bool in_hand = false;
  bool stuck = false;      // the driver could not tell about its fence when it was asked last
  std::list<Epoch*> hand;  // its node for FreedBlocks::in_hand_, while it is not in hand
  // Where Lane::by_size has this epoch, if it is one block that its stream may take back.
  std::optional<BySize::iterator> by_size = std::nullopt;
  Fence fence = {};
};

struct Lane {
  Lane() : turn(1, this) {}
  Epochs closed;  // oldest first
  BySize by_size;
  int in_hand = 0;        // how many of its epochs are
  std::list<Lane*> turn;  // its node for FreedBlocks::turns_, while `closed` is empty
};

}  // namespace cubfc::freed
