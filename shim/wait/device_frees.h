// Frees of one device's blocks that do not wait themselves, and the waits that make the blocks
// free: decides when an epoch of FreedBlocks gets its fence, and asks or waits for that.
//
// A fence is an event for each context that may use memory of the device; or, of what is freed in
// the order of a stream, one event of that stream, recorded by the free itself. Where it could not
// be recorded, the block waits for the device; where that could not be, it is tried again when
// somebody looks, or the contexts are synchronised by who waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "shim/wait/fences.h"
#include "shim/wait/freed_blocks.h"

namespace cubfc {

class Captures;
class Contexts;
class WaitPermit;

// Thread-safe. No lock is held across a driver call. While a stream captures, no context's work is
// recorded: what is freed then stays in the open epoch.
class DeviceFrees {
 public:
  using Order = FreedBlocks::Order;

  DeviceFrees(Device& device, Contexts& contexts, Captures& captures, Fences& fences)
      : device_(device),
        contexts_(contexts),
        captures_(captures),
        fences_(fences),
        freed_(device, contexts) {}

  // Whether any block is held here. No lock.
  bool any() const noexcept { return freed_.any(); }

  // The program has freed the live block that starts at `address`: retires it.
  struct How {
    // The context that it was freed in, if that is another one: its work is waited for, too.
    Context* in = nullptr;
    // In the order of this stream, for whose work alone it waits then. The stream does not capture.
    const Order* order = nullptr;
    // Requests of the stream may have it at once: take_back().
    bool again = false;
  };
  // False when there is no such block. Throws std::bad_alloc and has changed nothing then.
  bool add(Context& context, CUdeviceptr address, const How& how);

  // A block of the context that was freed in this stream, live again for a request of the same
  // stream: the stream's order keeps old and new use apart. At least `bytes`, little more; 0 when
  // none fits. Only for blocks of arenas.
  using Wanted = FreedBlocks::Wanted;
  CUdeviceptr take_back(Context& context, const Order& order, const Wanted& wanted);

  // add() of a plain free of a block that lies in the context's arena. Holds nothing but the
  // arena's lock. kFull: close_when_due() is to be called.
  arena::Arena::Gathered gather(Context& context, CUdeviceptr address) noexcept {
    return freed_.gather(context, address);
  }

  // Before the driver destroys a stream: forgets what was freed in it by its handle, which another
  // stream may get.
  void stream_will_end(CUstream stream);

  // Closes the open epoch if enough has gathered in it; collects then, and if many are closed.
  // Where the driver cannot record a context's work (before 12.5), that waits for the device.
  void close_when_due() noexcept;

  // After a plain free, when an epoch was closed: if more waits than the program may run ahead by,
  // waits as a free under CUBFC_FREE=sync would have, by wait_for_all(). Not while a stream
  // captures. Returns an error that stays, of earlier work in the block's context; else
  // CUDA_SUCCESS.
  CUresult hold_back(const Context& owner) noexcept;

  // Asks the driver about closed epochs, the oldest of each lane first, and makes free the blocks
  // of those whose work is done. A few lanes each time, each in its turn. Does not wait.
  void collect() noexcept;
  // Closes the open epoch first, if the driver can record it, and asks about all lanes.
  void close_and_collect() noexcept;

  // Before a capture begins: what is done by now cannot become free while it is open. Takes little
  // time.
  void prepare_for_capture() noexcept;

  // How many epochs' blocks have become free so far.
  std::size_t reclaimed() const noexcept { return freed_.reclaimed(); }
  // Waits until that is another number than `before`. False when nothing is held, or nothing can be
  // waited for: the driver fails, a stream captures, a context may be ending, or only streams that
  // have freed something with cuMemFreeAsync could bring anything, and do not within 2 seconds.
  bool wait_for_any(std::size_t before) noexcept;
  // Who waits again and again, while others go on freeing, stops when nothing that was held when it
  // began is held any more: a number that tells that.
  std::uint64_t newest() noexcept { return freed_.newest(); }
  bool has_until(std::uint64_t newest) noexcept { return any() && freed_.has_until(newest); }
  // Waits until no block of this context that is held here now is held any more, or nothing can be
  // waited for.
  void wait_for_blocks_of(const Context& context) noexcept;

  // Waits for all work that may use memory of the device, and in `current`, what
  // Contexts::current() has just answered, and makes free what was freed before. A capture may
  // begin meanwhile: once one has in this process, that waits by events, which does not hold up the
  // next. Returns what the wait for `owner`, which is of the device, reported;
  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED while a stream captures, and CUDA_ERROR_NOT_READY as
  // Contexts::synchronize(): then it has not waited.
  CUresult wait_for_all(const Context& owner, Context* current);

 private:
  using Epochs = FreedBlocks::Epochs;
  using Epoch = FreedBlocks::Epoch;

  bool add_in_order(Context& context, CUdeviceptr address, const How& how, bool& there);
  void close(WaitPermit& permit) noexcept;
  void record_fence(Epoch& epoch, WaitPermit& permit) noexcept;
  bool synchronize_owners(const Epoch& epoch, WaitPermit& permit);
  CUresult is_done(Epoch& epoch, WaitPermit& permit);
  void collect(std::size_t lanes, std::size_t most) noexcept;
  void close_and_collect(std::size_t lanes, std::size_t most) noexcept;
  bool collect_by_waiting() noexcept;
  // For what a stream alone frees.
  enum class ForStreams : bool { kBriefly, kAsLongAsItTakes };
  void tell_of_long_wait() noexcept;
  template <typename Predicate>
  bool wait_until(ForStreams for_streams, Predicate predicate) noexcept;
  void reclaim(Epochs& epoch) noexcept;
  bool is_stranger(const Context* context) const;
  bool may_wait(std::uint64_t bytes) const;

  Device& device_;
  Contexts& contexts_;
  Captures& captures_;
  Fences& fences_;
  FreedBlocks freed_;
  std::atomic<bool> told_of_long_wait_{false};
};

}  // namespace cubfc
