// Frees of one device's blocks that do not wait themselves, and the waits that make the blocks
// free: decides when an epoch of FreedBlocks gets its fence, and asks or waits for that.
//
// A fence is an event for each context that may use memory of the device, or one event of the
// stream in whose order the blocks were freed. Where it could not be recorded, it is tried again
// when somebody looks, or the contexts are synchronised by who waits.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/serve/fences.h"
#include "shim/serve/freed_blocks.h"

namespace cubfc {

class Captures;
class Contexts;
class WaitPermit;

// Thread-safe. No lock is held across a driver call. While a stream captures, nothing is recorded:
// what is freed then stays in an open epoch.
class DeviceFrees {
 public:
  using Order = FreedBlocks::Order;

  DeviceFrees(Device& device, Contexts& contexts, Captures& captures, Fences& fences)
      : device_(device), contexts_(contexts), captures_(captures), fences_(fences) {}

  // Whether any block is held here. No lock.
  bool any() const noexcept { return freed_.any(); }

  // The program has freed the live block that starts at `address`: retires it.
  struct How {
    // The context that it was freed in, if that is another one: its work is waited for, too.
    Context* in = nullptr;
    // In the order of this stream, for whose work alone it waits then.
    const Order* order = nullptr;
    // Requests of the stream may have it at once: take_back().
    bool again = false;
  };
  // False when there is no such block. Throws std::bad_alloc and has changed nothing then.
  bool add(Context& context, CUdeviceptr address, const How& how);

  // A block of the context that was freed in this stream, live again for a request of the same
  // stream: the stream's order keeps old and new use apart. At least `bytes`, little more; 0 when
  // none fits. Only for blocks of arenas.
  CUdeviceptr take_back(Context& context, const Order& order, std::uint64_t bytes) {
    return any() ? freed_.take_back(context, order, bytes) : 0;
  }

  // Before the driver destroys a stream: what was freed in it gets its fence, and is forgotten by
  // its handle, which another stream may get.
  void stream_will_end(CUstream stream);

  // Closes the epochs in which enough has gathered. Where the driver cannot record a context's work
  // (before 12.5), that waits for the device, but for what was freed in a stream's order.
  void close_when_due(const Context& context) noexcept;

  // Asks the driver about the closed epochs, the oldest of each order first, and makes free the
  // blocks of those whose work is done. Does not wait, but for an epoch whose fence failed on a
  // driver before 12.5: that one synchronises.
  void collect() noexcept;
  // Closes the open epochs first, those that the driver can record.
  void close_and_collect() noexcept;

  // Waits for the oldest epoch, an open one if none is closed, and makes its blocks free. If other
  // threads have all epochs in hand, waits up to 2 seconds for them. False when nothing waits, the
  // driver failed, or what waits has no fence because a stream captures.
  bool wait_for_oldest() noexcept;

  // How many epochs there are: who waits for the oldest again and again does so at most as often,
  // because others go on freeing.
  std::size_t epochs() noexcept { return freed_.epochs(); }
  // Whether a block of this context waits, or may.
  bool has_block_of(const Context& context) noexcept { return freed_.has_block_of(context); }

  // Waits for all work that may use memory of the device, and in the context `in` if it is not
  // nullptr, and makes free what was freed before. A capture may begin meanwhile: once one has in
  // this process, that waits by events, which does not hold up the next.
  // Returns what the wait for `owner`, which is of the device, reported;
  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED while a stream captures, and CUDA_ERROR_NOT_READY as
  // Contexts::synchronize(): then it has not waited.
  CUresult wait_for_all(const Context& owner, Context* in);

 private:
  using Epochs = FreedBlocks::Epochs;
  using Epoch = FreedBlocks::Epoch;

  template <typename Predicate>
  void close(WaitPermit& permit, Predicate which) noexcept;
  void close_recordable(WaitPermit& permit) noexcept;
  void record_fence(Epoch& epoch, WaitPermit& permit) noexcept;
  bool synchronize_owners(const Epoch& epoch, WaitPermit& permit);
  bool is_done(Epoch& epoch, WaitPermit& permit);
  void reclaim(Epochs& epoch) noexcept;
  bool is_stranger(const Context* context) const;

  Device& device_;
  Contexts& contexts_;
  Captures& captures_;
  Fences& fences_;
  FreedBlocks freed_;
};

}  // namespace cubfc
