// Keeps the blocks of one device that the program has freed and that work may still use. Such
// blocks are retired: no look-up finds them, and before that work is done nobody is given them,
// except by take_back(). They are kept in epochs (epochs.h).
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
  // Whether there are closed epochs that no thread has in hand.
  bool any_closed() const noexcept { return closed_.load(std::memory_order_acquire) > 0; }
  bool has_many_closed() const noexcept { return closed_.load(std::memory_order_acquire) >= kMany; }
  // Whether the open epoch is full, by the rule of arena/epoch.h.
  bool is_full() const noexcept { return full_.load(std::memory_order_acquire); }

  // Retires the live block that starts at `address`, until all work on the device is done. The
  // block becomes part of the open epoch, but its arena keeps it: only the arena's lock is taken.
  arena::Arena::Gathered gather(Context& owner, CUdeviceptr address) noexcept;
  // As gather(), for a block of any server. The block also waits for the work of `other`, if that
  // is not nullptr. False when there is no such block. Throws std::bad_alloc and has changed
  // nothing then.
  bool add(Context& owner, CUdeviceptr address, Context* other);
  // The same for a free in the order of a stream. `fence` must be complete, and is taken over if
  // the block is there. `again`: requests of the same stream may take the block back.
  bool add(Context& owner, CUdeviceptr address, const Order& order, Fence& fence, Context* other,
           bool again);

  // See DeviceFrees::take_back(). Moves the block's epoch, which is empty and in hand then, to
  // `done`; the caller must reclaim() it.
  struct Wanted {
    std::uint64_t bytes;
    arena::Caller caller;
  };
  CUdeviceptr take_back(Context& context, const Order& order, const Wanted& wanted, Epochs& done);
  // Called before the stream is destroyed, since another may get its handle. What was freed in the
  // stream goes on waiting, but cannot be taken back.
  void forget_stream(const StreamId& stream) noexcept;

  // The take functions give one epoch to the calling thread, which may then call the driver about
  // it without a lock. The epoch is "in hand": no other thread gets it until this one calls
  // put_back() or reclaim(). They return an empty list if there is no such epoch.
  //
  // Closes the open epoch and gives it.
  Epochs take_open() noexcept;
  // The oldest closed epoch of the lane whose turn it is.
  Epochs take_closed() noexcept;
  // One of the epochs that cover() has marked with this number.
  Epochs take_covered(std::uint64_t number) noexcept;

  // How many lanes have closed epochs that are not in hand.
  std::size_t lanes() noexcept;
  // What a thread that waits for any epoch can expect.
  enum class Prospect : std::uint8_t {
    kPending,    // some epoch's fence has all its marks, and will pass
    kInStreams,  // the same, but each such fence is of one stream, which may wait for this thread;
                 // requests of these streams cannot take the blocks back
    kInHand,     // another thread has some in hand
    kStuck,      // the driver cannot tell of any fence
  };
  Prospect prospect() noexcept;

  // Makes an epoch that is in hand the first, or the last, of the closed ones of its lane. With
  // kFirst, or if the lane had none, the lane's turn comes after those of all other lanes.
  enum class Place : bool { kFirst, kLast };
  void put_back(Epochs& epoch, Place place) noexcept;
  // Called when the work that an epoch waits for is done: its blocks are free. The caller must have
  // given back the epoch's fence.
  void reclaim(Epochs& epoch) noexcept;

  // Called before a wait for all contexts that may use the device's memory. Closes the open epoch,
  // without a fence. Marks the epochs that will be free after that wait, except those in hand.
  // Returns the mark, for take_covered().
  std::uint64_t cover(const Device& device) noexcept;

  // Bytes that cuMemFree has freed and that are in closed epochs, in hand or not. No lock.
  std::uint64_t plain_bytes() const noexcept {
    return plain_bytes_.load(std::memory_order_relaxed);
  }

  // How many epochs have been reclaimed so far, without those whose block was taken back.
  std::size_t reclaimed() const noexcept { return reclaimed_.load(std::memory_order_acquire); }
  // The number of the newest epoch.
  std::uint64_t newest() noexcept;
  // Whether an epoch up to this number holds a block; of `context`, if that is not nullptr.
  bool has_until(std::uint64_t newest, const Context* context = nullptr) noexcept;

 private:
  static constexpr std::ptrdiff_t kMany = 8;

  // The lanes by stream. The first lane is no stream's: its epochs wait for all work on the device.
  // A stream's lane stays at least as long as something waits in it.
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

  // Allocations and frees read these without the lock. The values may be a moment old. But when a
  // free has returned, any() is true until the freed block is reclaimed or taken back.
  std::atomic<std::ptrdiff_t> closed_{0};  // epochs, not in hand
  std::atomic<bool> any_open_{false};      // something is in the open epoch, or was a moment ago
  std::atomic<bool> full_{false};
  std::atomic<std::size_t> epochs_{0};  // closed, those in hand included
  std::atomic<std::size_t> reclaimed_{0};
  std::atomic<std::uint64_t> plain_bytes_{0};

  std::mutex mutex_;  // guards all below
  Lanes lanes_;
  // The open epoch: what is in this list, which has one element or none, and what the arenas of the
  // device's contexts have gathered, each under its own lock. It gets its number when the epoch
  // before it is closed.
  Epochs open_;
  std::uint64_t open_number_ = 1;
  std::list<Epoch*> in_hand_;
  std::list<freed::Lane*> turns_;  // the lanes that have closed epochs, in the order of their turns
  std::uint64_t numbers_ = 1;      // the last one that was given out
};

}  // namespace cubfc
