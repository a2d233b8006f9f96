// A GPU: a plain object. devices.h has the list of them, context.h what there is of a context.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "arena/options.h"
#include "config/policy.h"
#include "shim/device/context_end.h"
#include "shim/device/peer_set.h"
#include "shim/device/server.h"
#include "shim/limit/callers.h"
#include "shim/limit/device_limit.h"
#include "shim/limit/device_use.h"
#include "shim/limit/preallocation.h"
#include "shim/meet/device_id.h"

namespace cubfc {

class DeviceFrees;

// By which other processes know the device; zeros where the driver does not tell. One of several
// GPU instances (MIG) has its own.
DeviceId device_id_of(const DriverFunctions& driver, CUdevice device);

// Where what the program uses is written down, and who asks for it.
struct Observers {
  figures::ProcessFigures& figures;
  Callers& callers;
  TraceRecorder* trace;  // nullptr if nothing is recorded
};

// A GPU. Made when first needed, never destroyed.
struct Device {
  Device(const DriverFunctions& driver, const config::Policy& policy, ChooseServer choose_server,
         CUdevice device_handle, std::uint64_t its_bytes, Observers observers);

  // How a context's arena is to begin, when so many bytes are to be preallocated: in
  // `preallocation`, which all arenas share, where memory can be held so.
  arena::Options begin_arena(std::uint64_t wanted);

  // Whether what is to stay free (CUBFC_RESERVE, CUBFC_HOST_RESERVE) does when so many bytes more
  // are taken, of which so many are ours already. True where nobody can tell. A context of the
  // device is current.
  bool reserves_allow(const DriverFunctions& driver, std::uint64_t bytes,
                      std::uint64_t of_ours) const noexcept;
  // The host's only: of so many bytes, how many may be taken; whether all may.
  std::uint64_t beyond_host_reserve(std::uint64_t bytes) const noexcept;
  bool host_reserve_allows(std::uint64_t bytes) const noexcept {
    return beyond_host_reserve(bytes) == bytes;
  }

  // Of what is held of it, how much others that ask may have: all but what CUBFC_MEM_REQUEST keeps.
  std::uint64_t beyond_request() const noexcept;

  const config::Policy& policy;  // for what is taken of it
  CUdevice handle;
  std::string name;
  const DeviceId id;
  std::uint64_t total_bytes = 0;
  DeviceUse use;
  DeviceLimit limit;
  Preallocation preallocation;          // of its arenas
  std::atomic<bool> is_offered{false};  // to other processes, by SoftReserve (background/)
  // Requests that are just taking memory from the driver, perhaps more than they need: who asks
  // this process for memory is told so, and waits for what will be left of it.
  std::atomic<int> takers{0};
  // That the driver refuses what its server needs (Allocations) was said.
  std::atomic<bool> says_refusal{false};
  // The pitch of cuMemAllocPitch is a multiple of this, by log2 of the element size; 0: not asked
  // yet.
  std::atomic<std::size_t> pitch_alignment[5] = {};
  const bool has_pools;   // memory pools of the driver's
  const bool integrated;  // its memory is the host's
  // Arenas have managed memory, which may be more than the device has: CUBFC_UNIFIED_MEMORY.
  const bool managed;
  const std::unique_ptr<Server> server;  // who serves cuMemAlloc

  References references;  // to its primary context

  // What cuMemAlloc gives, any device can copy to and from; what is mapped or comes from a pool
  // only one that was given access. So every device of which the process has a context, and which
  // the hardware lets reach this one's memory, has access to it.
  std::atomic<PeerSet> peers{0};
  std::atomic<bool> introduced{false};  // the devices that were known before have been told

  std::atomic<DeviceFrees*> frees{nullptr};  // of its blocks: WaitingFrees (wait/) makes it

  // Its figures are there for readers: once it is known to be the only object of its device.
  void publish() noexcept { use.publish(); }
  // As long as it is in a group, whose limit others may change: writes it to the figures, and tells
  // the log. To be called now and then, by one thread.
  void look_at_group_limit();

 private:
  void write_figures();
};

}  // namespace cubfc
