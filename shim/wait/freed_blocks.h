// The books of what waits on one device: blocks that the program has freed and that work may still
// use. They are retired: nothing finds them, and nobody is given them before that work is done.
// They are kept in epochs (epochs.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>

#include "shim/device/server.h"
#include "shim/driver/stream_id.h"
#include "shim/wait/epochs.h"

namespace cubfc {

// Thread-safe. Only reclaim() may call the driver, by a server's reclaim(), and not under the lock.
class FreedBlocks {
 public:
  using Order = freed::Order;
  using Epoch = freed::Epoch;
  using Epochs = freed::Epochs;

  FreedBlocks(Device& device, const Contexts& contexts);  // throws std::bad_alloc

  bool any() const noexcept {
    return epochs_.load(std::memory_order_acquire) > 0 || any_open_.load(std::memory_order_acquire);
  }
  // Closed epochs that nobody has in hand.
  bool any_closed() const noexcept { return closed_.load(std::memory_order_acquire) > 0; }
  bool has_many_closed() const noexcept { return closed_.load(std::memory_order_acquire) >= kMany; }
  // Whether the open epoch is full, as an arena's epoch is.
  bool is_full() const noexcept { return full_.load(std::memory_order_acquire); }

  // Retires the live block that starts there, for all work on the device. It is in the open epoch
  // then, of which each arena keeps its own blocks: this takes the arena's lock and no other.
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

  // The take functions give an epoch to the calling thread, which may call the driver about it
  // without a lock: it is "in hand", and nobody else's, until the thread puts it back or reclaims
  // it. Empty if there is none.
  //
  // Closes the open epoch and gives it.
  Epochs take_open() noexcept;
  // The oldest closed one of the lane whose turn it is.
  Epochs take_closed() noexcept;
  // One of those that cover() gave this number.
  Epochs take_covered(std::uint64_t number) noexcept;

  // How many lanes have a turn.
  std::size_t lanes() noexcept;
  // What can become of the epochs that there are.
  enum class Prospect : std::uint8_t {
    kPending,    // some fence is complete, and will pass
    kInStreams,  // the same, but each waits for one stream only, which does not ask for it again
    kInHand,     // another thread has some in hand
    kStuck,      // of none can it be told
  };
  Prospect prospect() noexcept;

  // The first, or the last, of the closed ones of its lane, whose turn comes last now.
  enum class Place : bool { kFirst, kLast };
  void put_back(Epochs& epoch, Place place) noexcept;
  // Its work is done: its blocks are free. The caller has given back its fence.
  void reclaim(Epochs& epoch) noexcept;

  // Called before a wait for all contexts that may use the device's memory. Closes the open epoch,
  // without a fence, and marks each epoch, unless it is in hand, that will be free after that wait.
  // Returns the mark, for take_covered().
  std::uint64_t cover(const Device& device) noexcept;

  // Bytes that cuMemFree has freed and that are in closed epochs, in hand or not. No lock.
  std::uint64_t plain_bytes() const noexcept {
    return plain_bytes_.load(std::memory_order_relaxed);
  }

  // How many epochs there have been whose blocks are free by now.
  std::size_t reclaimed() const noexcept { return reclaimed_.load(std::memory_order_acquire); }
  // The number of the newest epoch.
  std::uint64_t newest() noexcept;
  // Whether an epoch that is no newer holds a block: of this context, if one is named.
  bool has_until(std::uint64_t newest, const Context* context = nullptr) noexcept;

 private:
  static constexpr std::ptrdiff_t kMany = 8;

  // By stream. The first lane has what waits for all work on the device. A lane stays as long as
  // something waits in it.
  using Lanes = std::map<Order, freed::Lane>;

  static void forget_size(Epoch& epoch) noexcept;
  Epochs take(freed::Lane& lane, Epochs::iterator which) noexcept;
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
  // direction only: any() is true as long as a block waits whose free has returned.
  std::atomic<std::ptrdiff_t> closed_{0};  // epochs, not in hand
  std::atomic<bool> any_open_{false};      // something is in the open epoch, or was a moment ago
  std::atomic<bool> full_{false};
  std::atomic<std::size_t> epochs_{0};  // closed, and in hand
  std::atomic<std::size_t> reclaimed_{0};
  std::atomic<std::uint64_t> plain_bytes_{0};

  std::mutex mutex_;  // guards all below
  Lanes lanes_;
  // The open epoch: what is in here, one or none, and what the arenas of the device's contexts have
  // gathered, each under its own lock. It has its number from the beginning.
  Epochs open_;
  std::uint64_t open_number_ = 1;
  std::list<Epoch*> in_hand_;
  std::list<freed::Lane*> turns_;  // the lanes that have closed epochs, in the order of their turns
  std::uint64_t numbers_ = 1;      // given out
};

}  // namespace cubfc
