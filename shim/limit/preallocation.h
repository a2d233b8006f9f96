// Preallocated memory of a device that is in no arena yet: physical memory that is mapped at no
// address (cuMemCreate). No work can use it, so it can be released without a wait. Whoever needs
// memory of the device may have it released.
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

// One for each device, shared by its contexts. Its bytes are not claimed in the limit's budget, so
// that others can claim them. Whoever has claimed bytes of that budget must call keep_to_limit()
// before calling the driver. Thread-safe; its lock is never held across a driver call. Needs no
// current context.
class Preallocation {
 public:
  // Of a device of so many bytes. `budget` and `use` must outlive it.
  Preallocation(const DriverFunctions& driver, CUdevice device, const arena::Budget& budget,
                std::uint64_t device_bytes, DeviceUse& use) noexcept;
  // Whether the device and the driver support physical memory without an address.
  bool possible() const noexcept { return granularity_ > 0; }

  // Called when a context's arena begins: this object and the arenas are to hold so many bytes
  // together. Only notes the number; the first call of after() creates the memory. A second plan is
  // ignored until end(). kLeaveQuarter: if the driver gives less than was planned, a quarter of
  // what it gives is left to others. It gives less on a full device, and under a limit of the
  // driver's that cuMemGetInfo does not show.
  enum class IfLess : bool { kTakeAll, kLeaveQuarter };
  void plan(std::uint64_t bytes, IfLess if_less = IfLess::kTakeAll) noexcept;
  std::uint64_t planned() const noexcept { return planned_.load(std::memory_order_relaxed); }

  // Held here, in bytes. No lock.
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_acquire); }

  // make_way(), after() and hold() go around a driver call that takes memory of the device for an
  // arena (servers/preallocated.h). make_way(), before the call: releases at least so many bytes,
  // or all that is held. Returns the bytes released.
  std::uint64_t make_way(std::uint64_t bytes) noexcept;
  // After a call that succeeded: creates again what was released beyond the bytes that the call
  // took. The first time, creates what was planned instead.
  void after(std::uint64_t released, std::uint64_t taken) noexcept;
  // After a call that failed, and when UnusedMemory::trim() has given back too much: creates so
  // many bytes, as far as the device and the limit have them. Stops when another process has asked
  // for memory meanwhile.
  void hold(std::uint64_t bytes) noexcept;

  // Called when anything else in this process needs memory of the device: by the source
  // Preallocated (source/sources.h) for a request that has failed, by MemorySources before managed
  // memory is allocated, by UnusedMemory::trim(). Releases so many bytes, or hardly more, or all
  // that is held. Returns the bytes released; 0 if none were held.
  std::uint64_t give_up(std::uint64_t bytes) noexcept { return give_up(bytes, bytes); }
  // Called by SoftReserve's thread for another process that wants `wanted` bytes in all. Releases
  // at least `bytes`, a part of `wanted`: pieces are released whole. Creates again only what was
  // released beyond `wanted`. First waits for a driver call that creates memory at this moment, and
  // keeps the thread that made the call from creating more.
  std::uint64_t give_to_others(std::uint64_t bytes, std::uint64_t wanted) noexcept;
  // The bytes that another process can get from here: those held, being created or being released.
  std::uint64_t bytes_for_others() noexcept;
  // Whether no thread is creating or releasing memory here at this moment.
  bool is_still() noexcept;
  // Releases what the limit has no room for any more, because others have claimed bytes of it.
  void keep_to_limit() noexcept;

  // Releases everything. The next plan() counts again.
  void end() noexcept;

 private:
  using Piece = HeldPieces::Piece;

  std::uint64_t at_most() const noexcept;
  std::uint64_t part_of(std::uint64_t device_bytes, std::uint64_t parts) const noexcept;
  std::uint64_t asked_so_far() noexcept;
  std::uint64_t reserve_room(std::uint64_t bytes, std::uint64_t asked) noexcept;
  // What keep() does with a piece if end() was called meanwhile. kRefuse, for a piece that was just
  // created: does not hold the piece. kKeep, for a piece that the driver did not take back: holds
  // the piece.
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
  const std::uint64_t granularity_;  // 0: there is no support for such memory
  const std::uint64_t large_piece_;
  const std::uint64_t small_piece_;
  std::atomic<std::uint64_t> planned_{0};
  std::atomic<IfLess> if_less_{IfLess::kTakeAll};
  std::atomic<bool> begun_{false};  // what was planned has been created once
  std::atomic<std::uint64_t> bytes_{0};

  std::mutex mutex_;  // guards all below, and changes of planned_ and bytes_
  HeldPieces pieces_;
  std::uint64_t creating_ = 0;   // bytes that the driver is being asked for
  std::uint64_t releasing_ = 0;  // bytes that the driver is being given back
  std::uint64_t asked_ = 0;      // how often other processes have asked
  std::condition_variable driver_is_back_;
};

}  // namespace cubfc
