// Writes the figures of what the program uses of one device, in arenas and outside of them, and
// tells the trace of each change. An arena writes its own figures, under its own lock; here the
// figures of all arenas are added up whenever there may be a new peak.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "arena/arena.h"
#include "arena/figures.h"
#include "arena/lock.h"
#include "shim/tell/figures.h"
#include "shim/tell/trace_format.h"

namespace cubfc {

class TraceRecorder;

// Thread-safe. Throws nothing but where it says so.
class DeviceUse {
 public:
  using Memory = trace::Memory;

  // Takes a place in `process`, which must outlive this object. If no place is left, keeps the
  // figures in memory of its own, where nobody else reads them. `trace`: nullptr if nothing is
  // recorded.
  DeviceUse(figures::ProcessFigures& process, TraceRecorder* trace);
  ~DeviceUse();
  DeviceUse(const DeviceUse&) = delete;
  DeviceUse& operator=(const DeviceUse&) = delete;

  figures::DeviceFigures& figures() { return figures_; }
  const figures::ProcessFigures& process() const { return process_; }
  // Called once all constant figures are written: lets others read them, and tells the trace.
  void publish() noexcept;

  // Called with each new arena of this device before the arena serves. From then on the arena
  // writes its figures here. Throws std::bad_alloc.
  void observe(arena::Arena& arena);

  // Memory outside of the arenas. begin(): the program has got it. end(): the program gives it
  // back. end_undone(): after end(), if the driver did not take it back. `address`: by which the
  // program knows the memory, which may be a handle.
  struct Piece {
    Memory memory;
    std::uint64_t bytes;
    std::uint64_t address;
    arena::Caller caller;
  };
  void begin(const Piece& piece) noexcept;
  void end(const Piece& piece) noexcept;
  void end_undone(const Piece& piece) noexcept;

  // refused(): a request for so many bytes failed for lack of memory. `report`: for the trace.
  // failed(): counts the failure by the kind of memory, if the request was not for an arena.
  void refused(std::uint64_t bytes, std::string_view report) noexcept;
  void failed(Memory memory) noexcept;

  // A free has waited for the device.
  void waited(std::chrono::nanoseconds time) noexcept;
  // For the trace: an epoch was closed. So many freed blocks, with so many bytes, now wait for the
  // work that was submitted before.
  void epoch_closed(std::uint64_t bytes, std::size_t blocks) noexcept;

  // Learns that memory has begun or ceased to be used, in an arena that is watched (Arena::watch)
  // or outside of arenas. device_changed() is called only once after each watch(). Both functions
  // are called under locks, and must call nothing that takes a lock.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void device_changed() noexcept = 0;
    // Called every time that memory is taken of the device or goes back, from the first watch() on.
    virtual void device_resized() noexcept = 0;
  };
  // Has `watcher` told of the next change. `watcher` must outlive this object. Must not be called
  // by two threads at once.
  void watch(Watcher& watcher) noexcept;
  // Tell the watcher. Called in here for arenas that are watched, for what is reserved, and by
  // begin() and end(). Others must call changed() when a freed block begins to wait, and resized()
  // when a pool gives memory back.
  void changed() noexcept;
  void resized() noexcept;

  // The bytes that the program has of the device outside of arenas.
  std::uint64_t beside_arenas() const noexcept;

  // Who has asked for what is in use now. Throws std::bad_alloc.
  std::vector<figures::CallerPart> callers_now() const;

  // Preallocation has got a piece of physical memory, or has it no longer. driver_called(): a call
  // of the driver was made for such a piece, or for an arena's memory.
  void reserved(std::uint64_t handle, std::uint64_t bytes) noexcept;
  void no_longer_reserved(std::uint64_t handle, std::uint64_t bytes) noexcept;
  // Of an arena, `bytes` are away now because the program sleeps; so far, `before`. 0: none is
  // away, or the arena has ended.
  void sleeps(std::uint64_t before, std::uint64_t bytes) noexcept;
  void driver_called() noexcept;
  std::uint64_t bytes_asleep() const noexcept { return arena::read(figures_.bytes_asleep); }

 private:
  class ArenaObserver;
  enum class Counted : bool { kNot, kAsAllocation };

  void begin(const Piece& piece, Counted counted) noexcept;
  std::uint64_t in_arenas() const noexcept;
  void look_at_peak() noexcept;
  void look_at_taken() noexcept;
  void let_arenas_look(std::uint64_t bytes) noexcept;
  trace::PlaceText place_text(Memory memory) const noexcept;
  void record_begin(const Piece& piece) noexcept;
  void record_end(const Piece& piece) noexcept;
  void record_reserve(trace::Kind kind, std::uint64_t handle, std::uint64_t bytes) noexcept;

  TraceRecorder* const trace_;
  figures::ProcessFigures& process_;
  std::unique_ptr<figures::DeviceFigures> apart_;  // if `process_` has no place left
  std::size_t number_ = 0;                         // its place there, from 1; 0: none
  figures::DeviceFigures& figures_;
  std::atomic<bool> is_watched_{false};
  std::atomic<Watcher*> watcher_{nullptr};

  // A thread that holds an arena's lock may take this one; a thread that holds this one must not
  // take an arena's.
  mutable arena::Lock lock_;
  std::vector<std::unique_ptr<arena::Figures>> arenas_apart_;
  std::vector<std::unique_ptr<ArenaObserver>> observers_;
  std::vector<arena::Figures*> arenas_;
  std::array<std::uint8_t, trace::kMemories> places_{};  // in the trace; 0: none yet
  std::uint8_t reserve_place_ = 0;
};

}  // namespace cubfc
