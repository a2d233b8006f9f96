// What the program uses of one device, in whatever way it got it: the figures of it are written
// here, and each change is told to the trace. The arenas' part comes from the arenas themselves,
// which write their figures under their own locks; here they are only added up, whenever there may
// be a new peak.
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

  // `process` must outlive it. Where it has no place for another device, this one's figures are
  // kept apart, and nobody else reads them. `trace`: nullptr if nothing is recorded.
  DeviceUse(figures::ProcessFigures& process, TraceRecorder* trace);
  ~DeviceUse();
  DeviceUse(const DeviceUse&) = delete;
  DeviceUse& operator=(const DeviceUse&) = delete;

  figures::DeviceFigures& figures() { return figures_; }
  const figures::ProcessFigures& process() const { return process_; }
  // For readers: what is constant is there.
  void publish() noexcept;

  // For a new arena of this device, before it serves: it keeps its figures here from then on.
  // Throws std::bad_alloc.
  void observe(arena::Arena& arena);

  // The program has memory that is in no arena; it no longer has it; it has it still, since it
  // could not be given back. (`address`: what it knows the memory by, which may be a handle.)
  struct Piece {
    Memory memory;
    std::uint64_t bytes;
    std::uint64_t address;
    arena::Caller caller;
  };
  void begin(const Piece& piece) noexcept;
  void end(const Piece& piece) noexcept;
  void end_undone(const Piece& piece) noexcept;

  // A request failed for lack of memory; one that was for no arena is counted by its kind, too.
  // `report`: for the trace.
  void refused(std::uint64_t bytes, std::string_view report) noexcept;
  void failed(Memory memory) noexcept;

  // A free has waited for the device.
  void waited(std::chrono::nanoseconds time) noexcept;
  // For the trace: blocks that were freed now wait for the work before.
  void epoch_closed(std::uint64_t bytes, std::size_t blocks) noexcept;

  // Who wants to know, once, that memory has begun or ceased to be used, in an arena that is
  // watched (Arena::watch) or beside. Called under locks: must call nobody.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void device_changed() noexcept = 0;
    // Each time, since watch() was called first: memory was taken of the device, or went back.
    virtual void device_resized() noexcept = 0;
  };
  // From now on, until the first such change. `watcher` must outlive this. One thread at a time.
  void watch(Watcher& watcher) noexcept;
  // What comes here by itself is what arenas do that are watched, what is reserved, and what begins
  // and ends. Of freed blocks that wait, and of what a pool gives back, it is to be told.
  void changed() noexcept;
  void resized() noexcept;

  // Who has asked for what is in use now. Throws std::bad_alloc.
  std::vector<figures::CallerPart> callers_now() const;

  // A piece of the device is held for later, in no arena; it no longer is. And calls of the driver
  // for that, or for an arena.
  void reserved(std::uint64_t handle, std::uint64_t bytes) noexcept;
  void no_longer_reserved(std::uint64_t handle, std::uint64_t bytes) noexcept;
  void driver_called() noexcept;

 private:
  class ArenaObserver;
  enum class Counted : bool { kNot, kAsAllocation };

  void begin(const Piece& piece, Counted counted) noexcept;
  std::uint64_t in_arenas() const noexcept;
  std::uint64_t beside_arenas() const noexcept;
  void look_at_peak() noexcept;
  void look_at_taken() noexcept;
  void let_arenas_look(std::uint64_t bytes) noexcept;
  trace::PlaceText place_text(Memory memory) const noexcept;
  void record_begin(const Piece& piece) noexcept;
  void record_end(const Piece& piece) noexcept;
  void record_reserve(trace::Kind kind, std::uint64_t handle, std::uint64_t bytes) noexcept;

  TraceRecorder* const trace_;
  figures::ProcessFigures& process_;
  std::unique_ptr<figures::DeviceFigures> apart_;  // where the process's figures have no place
  std::size_t number_ = 0;                         // its place there, from 1; 0: none
  figures::DeviceFigures& figures_;
  std::atomic<bool> is_watched_{false};
  std::atomic<Watcher*> watcher_{nullptr};

  // Taken under an arena's lock; never the other way round.
  mutable arena::Lock lock_;
  std::vector<std::unique_ptr<arena::Figures>> arenas_apart_;
  std::vector<std::unique_ptr<ArenaObserver>> observers_;
  std::vector<arena::Figures*> arenas_;
  std::array<std::uint8_t, trace::kMemories> places_{};  // in the trace; 0: none yet
  std::uint8_t reserve_place_ = 0;
};

}  // namespace cubfc
