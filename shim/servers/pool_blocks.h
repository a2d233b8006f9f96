// The blocks that a memory pool of the driver's has given to the program. Knows which there are and
// how far each is on its way back to the driver; makes no driver call.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "shim/device/server.h"
#include "shim/limit/claim.h"

namespace cubfc {

// A block is in one of four states:
//   live     the program has it;
//   retired  the program has freed it, and work on the device may still use it;
//   going    a thread has asked the driver to take it back, and the driver has not answered yet;
//   orphan   it has still to go back, and no begin function will be called for it: its context has
//            ended, or the driver refused to take it back when the work that used it was done.
//
// A block goes back in two steps, so that no lock is held while the driver works: one of the begin
// functions makes it going, then the caller calls cuMemFree, and finish() enters what the driver
// answered. As soon as the driver has the memory it may give the address to another thread, which
// may call add() before finish() is called.
//
// Thread-safe: every function is one step under this object's lock. Under that lock only the locks
// of DeviceUse and Callers are taken, by the functions of Claim. So a caller may hold another lock.
// A Claim that ends may take the locks of the limit, too, so it ends after this object's lock is
// released.
class PoolBlocks {
 private:
  enum class State : std::uint8_t { kLive, kRetired, kGoing };  // orphans have a map of their own
  struct Entry {
    Claim claim;
    std::uint64_t id;
    Context* context;
    std::uint64_t context_id;
    State state;
    bool is_left = false;  // going while its context ended
  };
  using Entries = std::map<CUdeviceptr, Entry>;  // by address; none overlaps another

 public:
  using Block = Server::Block;

  // Enters what the driver has just given, as a live block. If an older block lies there, the
  // driver has taken that block back, since the driver gives no memory twice. The older block is
  // removed, and finish() will not find it. Throws std::bad_alloc: the claim is gone then, and
  // nothing else is changed.
  void add(Context& context, CUdeviceptr address, Claim&& claim);

  // The live, retired or orphaned block that contains the address. Nothing for a block that is
  // going, or that a thread has by take_orphan().
  std::optional<Block> find(CUdeviceptr address) const noexcept;
  // The live block that contains the address, else the next live one.
  std::optional<Block> find_live_from(CUdeviceptr address) const noexcept;

  // The program frees the live block that starts there, which work may still use: it is retired.
  // Nothing if there is none.
  std::optional<Block> retire(CUdeviceptr address) noexcept;

  // A block that was made going, for finish().
  struct Going {
    CUdeviceptr address;
    std::uint64_t id;
    std::uint64_t context_id;
    State before;
  };
  // The program frees the live block that starts there, which no work uses. Nothing if there is
  // none, also when another thread is freeing it.
  std::optional<Going> begin_free(CUdeviceptr address) noexcept;
  // Called when no work uses the retired block any more. Nothing if it is no longer there, or an
  // orphan by now.
  std::optional<Going> begin_reclaim(CUdeviceptr address, std::uint64_t id) noexcept;
  // Called when the context will end: its next live or retired block, the first that starts at
  // `from` or beyond.
  std::optional<Going> begin_next_of(std::uint64_t context_id, CUdeviceptr from) noexcept;
  // Called when the driver has answered. `is_gone`: whether the driver has taken the memory back,
  // or does not know the address any more. Removes a block that is gone, and returns its claim. A
  // block that is not gone is live again, or an orphan if it was retired or its context has ended.
  // Does nothing if add() has removed the block meanwhile.
  std::optional<Claim> finish(const Going& going, bool is_gone) noexcept;

  // The context has ended: its live and retired blocks are made orphans. Those that are going are
  // left to the threads that have asked the driver.
  void orphan_all_of(std::uint64_t context_id) noexcept;
  // An orphan, which nobody else finds until finish() is called; empty() if there is none. Its
  // key() is the address.
  using Orphan = Entries::node_type;
  Orphan take_orphan() noexcept;
  static std::uint64_t context_of(const Orphan& orphan) { return orphan.mapped().context_id; }
  // As the other finish(), but ends the claim. A block that is not gone is an orphan again.
  void finish(Orphan orphan, bool is_gone) noexcept;

  struct Stats {
    std::uint64_t bytes_in_use = 0;  // of all blocks, whatever their state
    std::uint64_t peak_bytes_in_use = 0;
    std::uint64_t bytes_retired = 0;
    std::uint64_t operations = 0;  // changes with each allocation and each free
  };
  Stats stats() const noexcept;

 private:
  static Block block_of(const Entries::value_type& entry);
  static Entries::const_iterator first_beyond(const Entries& entries, CUdeviceptr address) noexcept;
  Entries::iterator find_live(CUdeviceptr address) noexcept;
  Going begin(Entries::value_type& entry) noexcept;

  mutable std::mutex mutex_;  // guards all below
  Entries entries_;           // live, retired and going
  Entries orphans_;
  Stats stats_;
};

}  // namespace cubfc
