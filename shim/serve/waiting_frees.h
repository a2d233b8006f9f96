// Blocks that the program has freed and that work on a device may still use. They are retired:
// nothing finds them, and nobody is given them before that work is done.
//
// Frees gather in the open epoch. A closed epoch has a fence: an event for each context of the
// process, because a stream of any context may use a block of any other. When all of them are done,
// the epoch's blocks are free.
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

namespace cubfc {

class Captures;
class Contexts;

// Thread-safe. Its lock is never held across a driver call. While a stream captures, nothing is
// recorded and nothing waits: blocks stay where they are.
class WaitingFrees : private ContextListener {
 public:
  WaitingFrees(const DriverFunctions& driver, Contexts& contexts, Captures& captures);

  bool any() const noexcept { return any_.load(std::memory_order_acquire); }

  // Takes the live block that starts at `address` from the program. False when there is none.
  // Throws std::bad_alloc and has changed nothing then.
  bool add(Context& context, CUdeviceptr address, const StreamId* order = nullptr);

  // A block that was freed in the order of this stream, live again for a request of the same
  // stream: what still uses it comes before what the request is for. 0 when none fits.
  CUdeviceptr take_back(Context& context, const StreamId& order, std::uint64_t bytes);

  // Its handle will soon mean another stream.
  void stream_will_end(CUstream stream);

  // Closes the open epoch if enough has gathered in it; where the driver cannot record a context's
  // work, that waits for the device. Waits, too, if more frees wait than are allowed to.
  void close_when_due(const Context& context) noexcept;

  // Makes free what is known to be done. Does not wait.
  void collect() noexcept;
  // The same, with what is in the open epoch.
  void close_and_collect() noexcept;

  // Waits for what has waited longest. False when nothing waits, or nothing may be waited for now.
  bool wait_for_oldest() noexcept;

  // Waits for all work submitted in any context, and makes free what was freed before. Returns what
  // the wait for `owner` reported. Precondition: a DeviceWait that is allowed.
  CUresult wait_for_all(const Context& owner);

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
  struct Mark {  // in a context's work
    Context* context;
    std::uint64_t id;  // of the context
    CUevent event;
  };
  struct Epoch {
    std::deque<Block> blocks;  // whose elements stay where they are
    std::uint64_t bytes = 0;
    std::vector<Mark> fence;
    bool fenced = false;  // the fence is complete
  };
  using Epochs = std::list<Epoch>;  // nodes are moved, so that only add() needs memory

  // The context's events went with it.
  void context_ended(std::uint64_t id) override;
  static void reclaim(const Block& block) noexcept;
  void close();
  void record_fence(Epoch& epoch) noexcept;
  CUevent event_for(const Context& context, std::uint64_t id, CUcontext handle);
  CUresult ask(const Mark& mark, CUresult (*question)(CUevent));
  bool synchronize_owners(const Epoch& epoch);
  bool is_done(const Epoch& epoch, CUresult (*question)(CUevent));
  Epochs take_open() noexcept;
  Epochs take_oldest() noexcept;
  enum class Place : bool { kFirst, kLast };
  void put_back(Epochs& epochs, Place place) noexcept;
  void reclaim(Epochs& epochs) noexcept;
  static void forget_order(Block& block) noexcept;
  void give_back_marks(Epoch& epoch) noexcept;

  const DriverFunctions& driver_;
  Contexts& contexts_;
  Captures& captures_;
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
  std::vector<Mark> spare_;  // events that mark nothing now
};

}  // namespace cubfc
