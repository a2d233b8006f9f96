// The books of what waits on one device: blocks that the program has freed and that work may still
// use. They are retired: nothing finds them, and nobody is given them before that work is done.
//
// Frees gather in an open epoch; when it is closed it gets a fence, and when that has passed its
// blocks are free. What cuMemFreeAsync frees waits for its stream only, so each stream has epochs
// of its own; all other frees share those that wait for all work on the device.
#pragma once

#include <atomic>
#include <compare>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/device/server.h"
#include "shim/driver/stream_id.h"
#include "shim/serve/fences.h"

namespace cubfc {

// Thread-safe. Calls no function of the driver's, but that a server's reclaim() may.
class FreedBlocks {
 public:
  // A stream in whose order something was freed. Streams of a context that has ended are others
  // than those of its successor.
  struct Order {
    Context* context = nullptr;  // the stream's
    std::uint64_t id = 0;        // of the context
    StreamId stream = {0, 0};
    // clang-tidy 14 sees a 0 in what the compiler makes of it.
    auto operator<=>(const Order&) const = default;  // NOLINT(modernize-use-nullptr)
    // Else all work on the device is meant.
    bool of_stream() const { return context != nullptr; }
  };

  struct Block;
  using BySize = std::multimap<std::uint64_t, Block*>;
  struct Block {
    Context* context;
    Server::Retired retired;
    bool taken = false;         // back, by the stream that freed it
    BySize* by_size = nullptr;  // where its stream finds it, at `place`
    BySize::iterator place = {};
  };
  struct Epoch {
    explicit Epoch(const Order& whose) : order(whose) {}
    Order order;               // whose work it waits for
    std::deque<Block> blocks;  // whose elements stay where they are
    std::uint64_t bytes = 0;
    std::vector<Context*> others;  // that it was freed in, and that may not use the device's memory
    std::uint64_t number = 0;      // in the order of closing; 0: not closed
    std::uint64_t covered = 0;     // by the last cover()
    Fence fence;
  };
  using Epochs = std::list<Epoch>;  // nodes are moved, so that only add() needs memory

  FreedBlocks() { lanes_.try_emplace(Order{}); }  // throws std::bad_alloc

  // No lock.
  bool any() const noexcept { return any_.load(std::memory_order_acquire); }
  bool any_closed() const noexcept { return any_closed_.load(std::memory_order_acquire); }
  // Whether some epoch has got full since the last look.
  bool look_for_full() noexcept {
    return any_full_.load(std::memory_order_acquire) &&
           any_full_.exchange(false, std::memory_order_acq_rel);
  }

  // Retires the live block that starts at `address`. `other` is added to the epoch's others if it
  // is not nullptr; with `again`, requests of the stream may take the block back. False when there
  // is no such block. Throws std::bad_alloc and has changed nothing then.
  bool add(Context& owner, CUdeviceptr address, const Order& order, Context* other, bool again);
  // See DeviceFrees::take_back().
  CUdeviceptr take_back(Context& context, const Order& order, std::uint64_t bytes);
  // The stream is about to be destroyed: what waits for its work waits for the device's instead, if
  // it has no fence yet. Waits, up to 2 seconds, for an epoch in hand that has just been open.
  void forget_stream(const StreamId& stream);

  // The next four take an epoch in hand: nobody else has it until it is put back or reclaimed.
  // Empty if there is none.
  //
  struct Walk {  // over the orders; from the first when it begins
    std::optional<Order> at;
    bool past = false;  // that one is done with
  };
  // The next open one in which something is and for which `which` answers true.
  template <typename Predicate>
  Epochs take_open(Walk& walk, Predicate which) noexcept {
    const std::lock_guard lock(mutex_);
    for (auto each = find(walk); each != lanes_.end(); ++each) {
      Lane& lane = each->second;
      if (!lane.open.empty() && !lane.open.front().blocks.empty() && which(lane.open.front())) {
        walk = {each->first, true};
        return take_open(lane);
      }
    }
    return {};
  }
  // The oldest closed one of the order that the walk is at, or of the next that has one.
  Epochs take_closed(Walk& walk) noexcept;
  // The one that was closed before all others.
  Epochs take_oldest() noexcept;
  // One that cover() has covered with this number.
  Epochs take_covered(std::uint64_t number) noexcept;

  // Closes all without a fence, and covers those that nobody has in hand by what the caller is
  // about to wait for: work on the device, and of their others, which are appended. Returns a
  // number. Throws std::bad_alloc and has changed nothing then.
  std::uint64_t cover(std::vector<Context*>& others);
  // The others of all that nobody has in hand. Throws std::bad_alloc.
  void append_others(std::vector<Context*>& others);

  enum class Place : bool { kFirst, kLast };  // among the closed ones of its order
  void put_back(Epochs& epoch, Place place) noexcept;
  // Its work is done: its blocks are free.
  void reclaim(Epochs& epoch) noexcept;
  // Waits up to 2 seconds until others have put back or reclaimed what they have in hand. False
  // when nobody has any, or still has.
  bool wait_for_others() noexcept;

  // How many epochs there are.
  std::size_t epochs() noexcept;
  // Whether a block of this context waits, or may.
  bool has_block_of(const Context& context) noexcept;

 private:
  struct Lane {     // what waits for the same work
    Epochs open;    // one, or none before something is freed
    Epochs closed;  // oldest first
    BySize by_size;
    int closing = 0;  // epochs in hand that were open
  };
  using Lanes = std::map<Order, Lane>;  // the first is the one that waits for the device

  static void forget_size(Block& block) noexcept;
  Lanes::iterator find(const Walk& walk);
  Epochs take_open(Lane& lane) noexcept;
  Epochs take_closed(Lane& lane, Epochs::iterator which) noexcept;
  void append_to_device(Epochs& epochs) noexcept;
  void change_closed(std::ptrdiff_t by) noexcept;
  template <typename Visit>
  bool any_of_epochs(Visit visit) const;
  void append_others_locked(std::vector<Context*>& others) const;

  // What an allocation and a free ask before they take the lock.
  std::atomic<bool> any_{false};
  std::atomic<bool> any_closed_{false};  // and not in hand
  std::atomic<bool> any_full_{false};

  std::mutex mutex_;  // guards all below
  std::condition_variable put_back_;
  Lanes lanes_;
  int in_hand_ = 0;            // epochs
  std::ptrdiff_t closed_ = 0;  // epochs, not in hand
  std::size_t waiting_ = 0;    // blocks
  std::uint64_t numbers_ = 0;  // given out
};

}  // namespace cubfc
