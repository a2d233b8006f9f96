// Blocks of one device that the program has freed and that work may still use. They are retired:
// nothing finds them, and nobody is given them before that work is done.
//
// Frees gather in the open epoch. When it is closed it gets a fence: an event for each context that
// may use memory of the device. When all of them have passed, the epoch's blocks are free. Where
// the fence could not be recorded, it is tried again when somebody looks, or the contexts are
// synchronised by who waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include "shim/device/server.h"
#include "shim/driver/stream_id.h"
#include "shim/serve/fences.h"

namespace cubfc {

class Captures;
class Contexts;
class WaitPermit;

// Thread-safe. Its lock is never held across a driver call. While a stream captures, no thread
// waits here and no event is recorded: what is freed then stays in the open epoch.
class DeviceFrees {
 public:
  DeviceFrees(Device& device, Contexts& contexts, Captures& captures, Fences& fences)
      : device_(device), contexts_(contexts), captures_(captures), fences_(fences) {}

  // Whether any block is held here. No lock.
  bool any() const noexcept { return any_.load(std::memory_order_acquire); }

  // The program has freed the live block that starts at `address`: retires it.
  struct How {
    // The context that it was freed in, if that is another one: its work is waited for, too.
    Context* in = nullptr;
    // The stream that it was freed in, whose requests take_back() serves with it.
    const StreamId* order = nullptr;
  };
  // False when there is no such block. Throws std::bad_alloc and has changed nothing then.
  bool add(Context& context, CUdeviceptr address, const How& how);

  // A block that was freed in this stream, live again for a request of the same stream: the
  // stream's order keeps old and new use apart. At least `bytes`, little more; 0 when none fits.
  // Only for blocks of arenas.
  CUdeviceptr take_back(Context& context, const StreamId& order, std::uint64_t bytes);

  // Before the driver destroys a stream: forgets what was freed in it by its handle, which another
  // stream may get. The blocks still wait for the device.
  void stream_will_end(CUstream stream);

  // Closes the open epoch if enough has gathered in it. Where the driver cannot record a context's
  // work (before 12.5), that waits for the device.
  void close_when_due(const Context& context) noexcept;

  // Asks the driver about the closed epochs, the oldest first, and makes free the blocks of those
  // whose work is done. Does not wait, but for an epoch whose fence failed on a driver before 12.5:
  // that one synchronises. Does nothing while a stream captures.
  void collect() noexcept;
  // Closes the open epoch first, where the driver can record a context's work (12.5).
  void close_and_collect() noexcept;

  // Waits for the oldest epoch, the open one if none is closed, and makes its blocks free. If other
  // threads have all epochs in hand, waits up to 2 seconds for them. False when nothing waits, a
  // stream captures, or the driver failed.
  bool wait_for_oldest() noexcept;

  // How many epochs there are: who waits for the oldest again and again does so at most as often,
  // because others go on freeing.
  std::size_t epochs() noexcept;
  // Whether a block of this context waits, or may.
  bool has_block_of(const Context& context) noexcept;

  // Waits for all work that may use memory of the device, and in the context `in` if it is not
  // nullptr, and makes free what was freed before.
  // Returns what the wait for `owner`, which is of the device, reported. Precondition: the permit
  // is given.
  CUresult wait_for_all(const Context& owner, Context* in, WaitPermit& permit);

 private:
  struct Block;
  struct Order {
    Context* context;
    StreamId stream;
    // clang-tidy 14 sees a 0 in what the compiler makes of it.
    auto operator<=>(const Order&) const = default;  // NOLINT(modernize-use-nullptr)
  };
  using Ordered = std::multimap<std::uint64_t, Block*>;  // by bytes
  struct Block {
    Context* context;
    Server::Retired retired;
    bool taken = false;          // back, by the stream that freed it
    Ordered* ordered = nullptr;  // where its stream finds it, at `place`
    Ordered::iterator place = {};
  };
  struct Epoch {
    std::deque<Block> blocks;  // whose elements stay where they are
    std::uint64_t bytes = 0;
    std::vector<Context*> others;  // that it was freed in, and that may not use the device's memory
    Fence fence;
  };
  using Epochs = std::list<Epoch>;  // nodes are moved, so that only add() needs memory

  static void reclaim(const Block& block) noexcept;
  void close();
  void record_fence(Epoch& epoch, WaitPermit& permit) noexcept;
  bool synchronize_owners(const Epoch& epoch, WaitPermit& permit);
  Epochs take_open() noexcept;
  Epochs take_oldest() noexcept;
  enum class Place : bool { kFirst, kLast };
  void put_back(Epochs& epochs, Place place) noexcept;
  void reclaim(Epochs& epochs) noexcept;
  bool is_stranger(const Context* context) const;
  static void forget_order(Block& block) noexcept;

  Device& device_;
  Contexts& contexts_;
  Captures& captures_;
  Fences& fences_;
  // What an allocation and a free ask before they take the lock.
  std::atomic<bool> any_{false};
  std::atomic<bool> any_closed_{false};  // and not in hand
  std::atomic<bool> due_{false};         // as close_when_due() means it

  std::mutex mutex_;  // guards all below
  std::condition_variable put_back_;
  Epochs open_;              // one, or none before something is freed
  Epochs closed_;            // oldest first
  int in_hand_ = 0;          // epochs that a thread has taken to look at or to wait for
  std::size_t waiting_ = 0;  // blocks
  std::map<Order, Ordered> ordered_;
};

}  // namespace cubfc
