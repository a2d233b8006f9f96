// Gives memory of a device that this process has taken and does not use (preallocated, or kept by
// arenas or the pool) to other processes of the user under cubfc when they ask for it.
// offer() is called before an arena or the pool takes anything; from then on a thread answers those
// who ask (Rendezvous). There is no thread if a setting asks for memory to be held, which makes it
// firm (Policy::gives_to_others), nor if arenas have managed memory and the process is in no group.
// When the program ends, the thread gives all unused memory back to the device, and ends before the
// driver does.
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

  // Called before memory of the device is taken for an arena or the pool. In a group, called before
  // any memory of the device is taken. Only the first call for a device counts.
  void offer(Device& device) noexcept;

  // A scope in which memory is taken from the driver for an arena or the pool, perhaps more than
  // the request needs. Other processes that ask meanwhile are told so, and wait for what will be
  // left over. The scope must end before the request waits for other processes: they might be
  // waiting for its end.
  class Taking {
   public:
    explicit Taking(Device& device) noexcept;
    ~Taking();
    Taking(const Taking&) = delete;
    Taking& operator=(const Taking&) = delete;

   private:
    Device& device_;
  };

  // Called by at_exit() (exit.cpp), which runs after the exit handler that ends the thread. Leaves
  // the Rendezvous, unless the thread still runs.
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
  std::mutex mutex_;  // guards offered_ and offers that are being made
  std::size_t offered_ = 0;
  struct Offer final : DeviceUse::Watcher {
    void device_changed() noexcept override { all->rendezvous_.changed(number); }
    void device_resized() noexcept override { all->rendezvous_.resized(number); }

    SoftReserve* all = nullptr;
    std::size_t number = 0;
    std::atomic<Device*> device{nullptr};
    // Used by the thread only: bytes that could not be given when they were asked for, and until
    // when they are left out of answers.
    std::uint64_t refused = 0;
    std::chrono::steady_clock::time_point refused_until;
  };
  std::array<Offer, meeting::kDevices> offers_;  // by number
  BackgroundThread thread_;
};

}  // namespace cubfc
