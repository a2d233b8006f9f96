// Frees blocks of one device without a wait in the free: FreedBlocks keeps them until the work that
// may use them is done. This class decides when an epoch of FreedBlocks gets its fence, and asks
// the driver about that fence or waits for it.
//
// The fence of an epoch has an event for each context that may use memory of the device. A block
// that is freed in the order of a stream has a fence with one event of that stream, recorded by the
// free itself; if that fails, the block waits for all work on the device instead. If an epoch's
// fence cannot be recorded, collect() tries again, and a thread that waits synchronises the
// contexts.
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

// Thread-safe. No lock is held across a driver call. While a stream captures, no event is recorded
// for the work of a context: what is freed then stays in the open epoch.
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
    // The context that was current at the free, if that is not the block's own. The block waits for
    // the work of that context, too.
    Context* in = nullptr;
    // The stream in whose order the block was freed: only its work is waited for. Must not capture.
    const Order* order = nullptr;
    // Requests of the same stream may have the block at once, by take_back().
    bool again = false;
  };
  // False when there is no such block. Throws std::bad_alloc and has changed nothing then.
  bool add(Context& context, CUdeviceptr address, const How& how);

  // Called for a request in a stream's order: makes a block of the context live again that was
  // freed in the order of the same stream. The stream's order keeps the block's old use and its new
  // use apart. The block has at least `wanted.bytes`, and little more; returns 0 when none fits.
  // Only finds blocks of arenas.
  using Wanted = FreedBlocks::Wanted;
  CUdeviceptr take_back(Context& context, const Order& order, const Wanted& wanted);

  // As add(), for a plain free of a block in the context's arena. Takes no lock but the arena's.
  // kFull: the caller must call close_when_due().
  arena::Arena::Gathered gather(Context& context, CUdeviceptr address) noexcept {
    return freed_.gather(context, address);
  }

  // Called before the driver destroys a stream, since another may get its handle: what was freed in
  // the stream cannot be taken back from now on.
  void stream_will_end(CUstream stream);

  // Closes the open epoch if enough has gathered in it, and collects; also collects if many epochs
  // are closed. Where the driver cannot record a context's work (before 12.5), closing waits for
  // the device.
  void close_when_due() noexcept;

  // Called after a plain free. If the closed epochs hold more freed bytes than may wait, and no
  // stream captures, waits by wait_for_all(), as a free under CUBFC_FREE=sync would have waited.
  // Returns an error that stays, if earlier work in the block's context `owner` has caused one and
  // the wait has reported it; else CUDA_SUCCESS.
  CUresult hold_back(const Context& owner) noexcept;

  // Asks the driver about closed epochs, and makes free the blocks of those whose work is done. The
  // closed epochs are in lanes (epochs.h): one lane for each stream in whose order blocks were
  // freed, and one for all other frees. Each call asks about a few lanes, in turns, and in each
  // lane about the oldest epoch first. Does not wait.
  void collect() noexcept;
  // As collect(), but closes the open epoch first, if the driver can record its fence, and asks
  // about all lanes.
  void close_and_collect() noexcept;

  // Called before a capture begins, during which the open epoch cannot be closed: closes it and
  // collects from a few lanes. Takes little time.
  void prepare_for_capture() noexcept;

  // How many epochs' blocks have become free so far.
  std::size_t reclaimed() const noexcept { return freed_.reclaimed(); }
  // Waits until reclaimed() is another number than `before`. False when nothing is held, or when
  // nothing can be waited for: the driver fails, a stream captures, or a context may be ending.
  // Also false when none becomes free within 2 seconds, and all that are held were freed in the
  // order of a stream (cuMemFreeAsync) whose requests cannot take them back.
  bool wait_for_any(std::size_t before) noexcept;
  // For a thread that waits again and again while others go on freeing: newest() gives a number for
  // all that is held now, and has_until() tells whether any of that is still held.
  std::uint64_t newest() noexcept { return freed_.newest(); }
  bool has_until(std::uint64_t newest) noexcept { return any() && freed_.has_until(newest); }
  // Waits until all blocks of this context that are held now are free, or until nothing can be
  // waited for.
  void wait_for_blocks_of(const Context& context) noexcept;

  // Waits for all work in contexts that may use memory of the device, and in `current`, which is
  // what Contexts::current() has just answered. If the wait succeeds, the blocks that the program
  // freed before the wait become free. Once a capture has begun in this process, waits by events,
  // so that another capture can begin meanwhile. Returns what the wait for `owner`, a context of
  // the device, reported.
  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: has not waited, because a stream captures.
  // CUDA_ERROR_NOT_READY: not all of the work was waited for (see Contexts::synchronize()).
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
  // How long to wait when all blocks that are held were freed in the order of a stream.
  enum class ForStreams : bool { kBriefly, kAsLongAsItTakes };
  void tell_of_long_wait() noexcept;
  std::chrono::steady_clock::duration patience_with(FreedBlocks::Prospect prospect,
                                                    ForStreams for_streams) const noexcept;
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
