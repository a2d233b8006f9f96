// What was preallocated without being asked for is soft: other processes of the user that run under
// cubfc have it by asking. DeviceMemory calls offer() when an arena has grown; from then on a
// thread answers those who ask (Rendezvous), and gives up what is not in use. With
// CUBFC_PREALLOCATE or a fraction set the reserve is firm, and there is neither thread nor file.
#pragma once

#include <array>
#include <atomic>
#include <mutex>

#include "shim/serve/background_thread.h"
#include "shim/share/rendezvous.h"

namespace cubfc {

class UnusedMemory;
struct Device;

// Thread-safe.
class SoftReserve {
 public:
  SoftReserve(Rendezvous& rendezvous, UnusedMemory& unused);

  // For a device of which something was preallocated; the first call for each counts.
  void offer(Device& device) noexcept;

  // When the process ends, after its exit handlers.
  void leave() noexcept;

 private:
  void answer_rings() noexcept;
  Rendezvous::Answer give(std::size_t number, std::uint64_t wanted) noexcept;

  Rendezvous& rendezvous_;
  UnusedMemory& unused_;
  std::mutex mutex_;  // of offer()
  std::size_t offered_ = 0;
  std::array<std::atomic<Device*>, Rendezvous::kDevices> devices_{};  // by number
  BackgroundThread thread_;
};

}  // namespace cubfc
