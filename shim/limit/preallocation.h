// What is preallocated of a device and in no arena yet: physical memory without addresses
// (cuMemCreate). Nothing can use it, so that giving it up waits for no work, and whoever needs
// memory of the device takes it from here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "arena/budget.h"
#include "shim/driver/driver.h"
#include "shim/limit/device_use.h"
#include "shim/limit/held_pieces.h"

namespace cubfc {

// One for each device, shared by its contexts. Not counted by the limit's budget, which others may
// take from as if this were free: they call keep_to_limit() before they call the driver.
// Thread-safe; its lock is never held across a driver call. Needs no current context.
class Preallocation {
 public:
  // Of a device of so many bytes. `budget` and `use` must outlive it.
  Preallocation(const DriverFunctions& driver, CUdevice device, const arena::Budget& budget,
                std::uint64_t device_bytes, DeviceUse& use) noexcept;
  // Whether device and driver have such memory.
  bool possible() const noexcept { return granularity_ > 0; }

  // Called when a context's arena begins: this and the arenas are to hold so many bytes together.
  // Only notes that; the first after() takes the memory. A second plan is ignored until end().
  // kLeaveQuarter: where the device has less than that, a quarter of what it has is left to others,
  // as of a device of that size: there may be a limit of the driver's of which cuMemGetInfo says
  // nothing.
  enum class IfLess : bool { kTakeAll, kLeaveQuarter };
  void plan(std::uint64_t bytes, IfLess if_less = IfLess::kTakeAll) noexcept;
  std::uint64_t planned() const noexcept { return planned_.load(std::memory_order_relaxed); }

  // Held here, in bytes. No lock.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_acquire); }

  // The three around a driver call that takes memory of the device for an arena
  // (servers/preallocated.h). Before it: releases that much, or all that is held. Returns the bytes
  // released.
  std::uint64_t make_way(std::uint64_t bytes) noexcept;
  // When it has succeeded: creates again what was released beyond the bytes that were taken. The
  // first call of all creates what was planned.
  void after(std::uint64_t released, std::uint64_t taken) noexcept;
  // When it has failed: creates so many bytes again, as far as device and limit have them, unless
  // others have asked meanwhile.
  void hold(std::uint64_t bytes) noexcept;

  // For whoever else in this process needs memory of the device: releases so many bytes, hardly
  // more, or all that is held. Returns how many; 0 if there were none.
  std::uint64_t give_up(std::uint64_t bytes) noexcept { return give_up(bytes, bytes); }
  // The same for another process, which wants `wanted` bytes in all, `bytes` of them from here:
  // what is released beyond `bytes` is created again only as far as it is beyond `wanted`. Waits
  // for a driver call that creates more, and ends what would create more still.
  std::uint64_t give_to_others(std::uint64_t bytes, std::uint64_t wanted) noexcept;
  // What there is for another process: what is held, and what is being created or released.
  std::uint64_t bytes_for_others() noexcept;
  // Whether the driver is being asked for nothing at this moment.
  bool is_still() noexcept;
  // Releases what the limit has no place for any more, because others have taken of it.
  void keep_to_limit() noexcept;

  // Releases everything; plan() begins again.
  void end() noexcept;

 private:
  using Piece = HeldPieces::Piece;

  std::uint64_t at_most() const noexcept;
  std::uint64_t part_of(std::uint64_t device_bytes, std::uint64_t parts) const noexcept;
  std::uint64_t asked_so_far() noexcept;
  std::uint64_t reserve_room(std::uint64_t bytes, std::uint64_t asked) noexcept;
  // What was created for a plan is not kept when end() was called meanwhile; what the driver did
  // not take back is.
  enum class Ended : bool { kRefuse, kKeep };
  bool keep(Piece piece, Ended if_ended) noexcept;
  bool take(Piece& piece, std::uint64_t bytes) noexcept;
  std::uint64_t hold_for_more(std::uint64_t bytes, std::uint64_t request) noexcept;
  struct Held {
    std::uint64_t bytes;
    bool device_has_less;
  };
  Held hold_in_pieces(std::uint64_t bytes, std::uint64_t first, std::uint64_t most) noexcept;
  void begin(std::uint64_t taken) noexcept;
  std::uint64_t give_up(std::uint64_t bytes, std::uint64_t wanted) noexcept;

  const DriverFunctions& driver_;
  const CUdevice device_;
  const arena::Budget& budget_;
  DeviceUse& use_;
  const std::uint64_t granularity_;  // 0: there is no such memory
  const std::uint64_t large_piece_;
  const std::uint64_t small_piece_;
  std::atomic<std::uint64_t> planned_{0};
  std::atomic<IfLess> if_less_{IfLess::kTakeAll};
  std::atomic<bool> begun_{false};  // what was planned has been taken once
  std::atomic<std::uint64_t> bytes_{0};

  std::mutex mutex_;  // guards all below, and changes of planned_ and bytes_
  HeldPieces pieces_;
  std::uint64_t creating_ = 0;   // bytes that the driver is being asked for
  std::uint64_t releasing_ = 0;  // bytes that the driver is being given back
  std::uint64_t asked_ = 0;      // how often others have asked
  std::condition_variable driver_is_back_;
};

}  // namespace cubfc
