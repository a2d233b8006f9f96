// What this process has taken of a device and does not use, other processes of the user that run
// under cubfc have by asking: what was preallocated, and what arenas and the pool keep.
// Allocations calls offer() before an arena or the pool takes anything; from then on a thread
// answers those who ask (Rendezvous). Where somebody has asked for memory to be held it is firm
// (Policy::gives_to_others), and there is no thread. When the program ends, the thread gives all of
// it back to the device, and ends before the driver does.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "shim/background/background_thread.h"
#include "shim/limit/device_use.h"
#include "shim/meet/rendezvous.h"

namespace cubfc {

class MapDrawer;
class UnusedMemory;
struct Device;

// Thread-safe.
class SoftReserve {
 public:
  SoftReserve(Rendezvous& rendezvous, UnusedMemory& unused, MapDrawer& map);

  // For a device of which something is to be taken; the first call for each counts.
  void offer(Device& device) noexcept;

  // Lives while memory is taken from the driver for an arena or the pool, until what is not needed
  // of it is counted as theirs. Not while the request waits for others: they might wait for it.
  class Taking {
   public:
    explicit Taking(Device& device) noexcept;
    ~Taking();
    Taking(const Taking&) = delete;
    Taking& operator=(const Taking&) = delete;

   private:
    Device& device_;
  };

  // When the process ends, after its exit handlers.
  void leave() noexcept;

 private:
  void answer_rings() noexcept;
  void look_around() noexcept;
  void give_all_back() noexcept;
  void meet_groups_again() noexcept;
  std::uint64_t give(std::size_t number, std::uint64_t wanted) noexcept;
  Rendezvous::Left left(std::size_t number) noexcept;

  Rendezvous& rendezvous_;
  UnusedMemory& unused_;
  MapDrawer& map_;
  std::mutex mutex_;  // of offer()
  std::size_t offered_ = 0;
  struct Offer final : DeviceUse::Watcher {
    void device_changed() noexcept override { all->rendezvous_.changed(number); }
    void device_resized() noexcept override { all->rendezvous_.resized(number); }

    SoftReserve* all = nullptr;
    std::size_t number = 0;
    std::atomic<Device*> device{nullptr};
    // The thread's: bytes that could not be given when they were asked for, and until when they are
    // not spoken of.
    std::uint64_t refused = 0;
    std::chrono::steady_clock::time_point refused_until;
  };
  std::array<Offer, meeting::kDevices> offers_;  // by number
  BackgroundThread thread_;
};

}  // namespace cubfc
