// The books of what waits on one device: blocks that the program has freed and that work may still
// use. They are retired: nothing finds them, and nobody is given them before that work is done.
//
// What waits is kept in epochs, whose blocks are free when their fence has passed. Plain frees
// gather in an open epoch, whose fence, for all work on the device, is made when it is closed. A
// free in a stream's order is a closed epoch with a fence at once, in the lane of its stream.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/device/server.h"
#include "shim/driver/stream_id.h"
#include "shim/wait/fences.h"

namespace cubfc {

// Thread-safe. Calls no function of the driver's, but that a server's reclaim() may.
class FreedBlocks {
 public:
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
    std::vector<Context*> others;  // that it was freed in, and that may not use the device's memory
    std::uint64_t number = 0;      // in the order in which epochs begin
    std::uint64_t covered = 0;     // by the last cover()
    bool in_hand = false;
    bool stuck = false;      // the driver could not tell about its fence when it was asked last
    std::list<Epoch*> hand;  // its node for in_hand_, while it is not there
    // Of one block that its stream may take back: where it finds it.
    std::optional<BySize::iterator> by_size = std::nullopt;
    Fence fence = {};
  };

  FreedBlocks(Device& device, const Contexts& contexts);  // throws std::bad_alloc

  bool any() const noexcept {
    return epochs_.load(std::memory_order_acquire) > 0 || any_open_.load(std::memory_order_acquire);
  }
  // Closed epochs that nobody has in hand.
  bool any_closed() const noexcept { return closed_.load(std::memory_order_acquire) > 0; }
  bool has_many_closed() const noexcept { return closed_.load(std::memory_order_acquire) >= kMany; }
  // Whether the open epoch is full, as an arena's epoch is.
  bool is_full() const noexcept { return full_.load(std::memory_order_acquire); }

  // Retires the live block that starts there, for all work on the device. It joins the open epoch
  // where its arena keeps it: the arena's lock is all that this takes.
  arena::Arena::Gathered gather(Context& owner, CUdeviceptr address) noexcept;
  // The same for any server's block, and for the work of `other`, too, if not nullptr. False when
  // there is none. Throws std::bad_alloc and has changed nothing then.
  bool add(Context& owner, CUdeviceptr address, Context* other);
  // In the order of a stream, with a complete fence, which is taken over if the block is there.
  // With `again`, requests of the stream may take the block back.
  bool add(Context& owner, CUdeviceptr address, const Order& order, Fence& fence, Context* other,
           bool again);

  // See DeviceFrees::take_back(). The block's epoch is moved to `done`, in hand.
  struct Wanted {
    std::uint64_t bytes;
    arena::Caller caller;
  };
  CUdeviceptr take_back(Context& context, const Order& order, const Wanted& wanted, Epochs& done);
  // The stream may end: its handle means it no more. What it freed waits still.
  void forget_stream(const StreamId& stream) noexcept;

  // Epochs in hand are nobody else's until they are put back or reclaimed. Empty if there is none.
  // The open one, closed from now on.
  Epochs take_open() noexcept;
  // The oldest closed one of the lane whose turn it is.
  Epochs take_closed() noexcept;
  // One that cover() has covered with this number.
  Epochs take_covered(std::uint64_t number) noexcept;

  // How many lanes have a turn.
  std::size_t lanes() noexcept;
  // What can become of the epochs that there are.
  enum class Prospect : std::uint8_t {
    kPending,    // some fence is complete, and will pass
    kInStreams,  // the same, but only by what one stream does, for blocks that it cannot have back
    kInHand,     // another thread has some in hand
    kStuck,      // of none can it be told
  };
  Prospect prospect() noexcept;

  // The first, or the last, of the closed ones of its lane, whose turn comes last now.
  enum class Place : bool { kFirst, kLast };
  void put_back(Epochs& epoch, Place place) noexcept;
  // Its work is done: its blocks are free. The caller has given back its fence.
  void reclaim(Epochs& epoch) noexcept;

  // Closes the open one without a fence, and covers all not in hand that wait only for contexts
  // which may use this device's memory: the caller is about to wait for those. Returns a number.
  std::uint64_t cover(const Device& device) noexcept;

  // How many epochs there have been whose blocks are free by now.
  std::size_t reclaimed() const noexcept { return reclaimed_.load(std::memory_order_acquire); }
  // The number of the newest epoch.
  std::uint64_t newest() noexcept;
  // Whether an epoch that is no newer holds a block: of this context, if one is named.
  bool has_until(std::uint64_t newest, const Context* context = nullptr) noexcept;

  struct Lane {
    Lane() : turn(1, this) {}
    Epochs closed;  // oldest first
    BySize by_size;
    int in_hand = 0;        // of its epochs
    std::list<Lane*> turn;  // its node for turns_, while it is not there
  };

 private:
  static constexpr std::ptrdiff_t kMany = 8;

  // The first waits for the device. A lane stays as long as something waits in it.
  using Lanes = std::map<Order, Lane>;

  static void forget_size(Epoch& epoch) noexcept;
  Epochs take(Lane& lane, Epochs::iterator which) noexcept;
  void put(Epochs& epoch, Place place) noexcept;
  void take_in_hand(Epoch& epoch) noexcept;
  void let_go(Epoch& epoch) noexcept;
  void drop_empty_lanes() noexcept;
  void make_open();
  Epochs close_open();
  template <typename Do>
  void for_each_context(Do what) const;

  Device& device_;
  const Contexts& contexts_;

  // What an allocation and a free ask without the lock. Any of it may be a moment old, in one
  // direction only: any() is true as long as a block is held whose free has returned.
  std::atomic<std::ptrdiff_t> closed_{0};  // epochs, not in hand
  std::atomic<bool> any_open_{false};      // something is in the open epoch, or was a moment ago
  std::atomic<bool> full_{false};
  std::atomic<std::size_t> epochs_{0};  // closed, and in hand
  std::atomic<std::size_t> reclaimed_{0};

  std::mutex mutex_;  // guards all below
  Lanes lanes_;
  // The open epoch: what is in here, one or none, and what the arenas of the device's contexts have
  // gathered, each under its own lock. It has its number from the beginning.
  Epochs open_;
  std::uint64_t open_number_ = 1;
  std::list<Epoch*> in_hand_;
  std::list<Lane*> turns_;     // the lanes that have closed epochs, in the order of their turns
  std::uint64_t numbers_ = 1;  // given out
};

}  // namespace cubfc
