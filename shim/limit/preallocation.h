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

  // At the first request: this and the arenas are to hold so many bytes together. Later ones are
  // ignored until end(). Before and after that nothing is held.
  void plan(std::uint64_t bytes) noexcept;
  std::uint64_t planned() const noexcept { return planned_.load(std::memory_order_relaxed); }

  // Held here, in bytes. No lock.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_acquire); }

  // Around a request that takes memory of the device for an arena. Before: gives up that much, or
  // all that there is. Returns the bytes given up.
  std::uint64_t make_way(std::uint64_t bytes) noexcept;
  // After: takes back what of that was not used, and at the first request all that was planned.
  void after(std::uint64_t given_up, std::uint64_t taken) noexcept;

  // For whoever else needs memory of the device: gives up so many bytes, hardly more, or all there
  // are. Returns how many; 0 if there were none.
  std::uint64_t give_up(std::uint64_t bytes) noexcept { return give_up(bytes, bytes); }
  // The same for other processes: what the driver is just being asked for is given up, too, and no
  // more is taken that somebody lacks. They want `wanted` bytes in all, so that the last piece of
  // `bytes` need not be taken anew in part. And what there is for them: here, or between here and
  // the driver at this moment.
  std::uint64_t give_to_others(std::uint64_t bytes, std::uint64_t wanted) noexcept;
  std::uint64_t bytes_for_others() noexcept;
  // Takes so many bytes more, as far as device and limit have them, unless others ask meanwhile.
  void hold(std::uint64_t bytes) noexcept;
  // Gives up what the limit has no place for, since others have taken it.
  void keep_to_limit() noexcept;

  // Gives up everything; plan() begins again.
  void end() noexcept;

 private:
  using Piece = HeldPieces::Piece;

  std::uint64_t at_most() const noexcept;
  std::uint64_t part_of(std::uint64_t device_bytes, std::uint64_t parts) const noexcept;
  std::uint64_t asked_so_far() noexcept;
  std::uint64_t reserve_room(std::uint64_t bytes, std::uint64_t asked) noexcept;
  enum class Over : bool { kNot, kAlso };
  bool keep(Piece piece, Over over) noexcept;
  bool take(Piece& piece, std::uint64_t bytes) noexcept;
  std::uint64_t hold_for_more(std::uint64_t bytes, std::uint64_t request) noexcept;
  std::uint64_t hold_in_pieces(std::uint64_t bytes, std::uint64_t first,
                               std::uint64_t most) noexcept;
  std::uint64_t give_up(std::uint64_t bytes, std::uint64_t wanted) noexcept;

  const DriverFunctions& driver_;
  const CUdevice device_;
  const arena::Budget& budget_;
  DeviceUse& use_;
  const std::uint64_t granularity_;  // 0: there is no such memory
  const std::uint64_t large_piece_;
  const std::uint64_t small_piece_;
  std::atomic<std::uint64_t> planned_{0};
  std::atomic<bool> begun_{false};  // what was planned has been taken once
  std::atomic<std::uint64_t> bytes_{0};

  std::mutex mutex_;  // guards all below, and changes of planned_ and bytes_
  HeldPieces pieces_;
  std::uint64_t in_flight_ = 0;  // bytes that the driver is being asked for
  std::uint64_t moving_ = 0;     // bytes that the driver is being given back
  std::uint64_t asked_ = 0;      // how often others have asked
  std::condition_variable landed_;
};

}  // namespace cubfc
