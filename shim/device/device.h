// A GPU: a plain object. devices.h has the list of them, context.h the contexts.
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

// The id by which other processes know the device, too; zeros if the driver does not tell it. Each
// GPU instance (MIG) has its own.
DeviceId device_id_of(const DriverFunctions& driver, CUdevice device);

// The objects that record the use of memory, and that tell which caller requests it.
struct Observers {
  figures::ProcessFigures& figures;
  Callers& callers;
  TraceRecorder* trace;  // nullptr if nothing is recorded
};

// A GPU. Made when first needed, never destroyed.
struct Device {
  Device(const DriverFunctions& driver, const config::Policy& policy, ChooseServer choose_server,
         CUdevice device_handle, std::uint64_t its_bytes, Observers observers);

  // The options with which a context's arena begins. `wanted`: the bytes to be preallocated for it.
  // Where the device can hold memory without an address, these bytes are planned in
  // `preallocation`, which all arenas share, and are not in the options.
  arena::Options begin_arena(std::uint64_t wanted);

  // Whether the bytes of CUBFC_RESERVE and CUBFC_HOST_RESERVE stay free when a request gets
  // `bytes`. Up to `of_ours` of them come from memory that this process has taken before. True if
  // what is free cannot be found out. Precondition: a context of the device is current.
  bool reserves_allow(const DriverFunctions& driver, std::uint64_t bytes,
                      std::uint64_t of_ours) const noexcept;
  // For CUBFC_HOST_RESERVE alone. beyond_host_reserve(): how many of `bytes` may be taken so that
  // the reserve stays free. host_reserve_allows(): whether all of them may be taken.
  std::uint64_t beyond_host_reserve(std::uint64_t bytes) const noexcept;
  bool host_reserve_allows(std::uint64_t bytes) const noexcept {
    return beyond_host_reserve(bytes) == bytes;
  }

  // How many bytes this process may give to other processes: those that it has taken beyond
  // CUBFC_MEM_REQUEST. If that is not set, there is no bound.
  std::uint64_t beyond_request() const noexcept;

  const config::Policy& policy;  // as it is for this device
  CUdevice handle;
  std::string name;
  const DeviceId id;
  std::uint64_t total_bytes = 0;
  DeviceUse use;
  DeviceLimit limit;
  Preallocation preallocation;          // for its arenas
  std::atomic<bool> is_offered{false};  // to other processes, by SoftReserve (background/)
  // Requests that are taking memory from the driver at this moment, perhaps more than they need. A
  // process that asks this one for memory is told so, and waits for what is left over.
  std::atomic<int> takers{0};
  // Whether Allocations has logged that the driver refuses calls that the server needs.
  std::atomic<bool> says_refusal{false};
  // The pitch of cuMemAllocPitch is a multiple of this, by log2 of the element size; 0: not asked
  // yet.
  std::atomic<std::size_t> pitch_alignment[5] = {};
  const bool has_pools;   // the driver has memory pools for it
  const bool integrated;  // its memory is the host's
  // Arenas have managed memory, which may be more than the device has: CUBFC_UNIFIED_MEMORY.
  const bool managed;
  const std::unique_ptr<Server> server;  // what serves cuMemAlloc

  References references;  // to its primary context

  // Every device can copy to and from memory of cuMemAlloc. Only a device that was given access can
  // copy to and from mapped memory, or a pool's memory. So access is given to every other device
  // that the process uses and that the hardware lets reach this one's memory. `peers`: the devices
  // that are given access.
  std::atomic<PeerSet> peers{0};
  std::atomic<bool> introduced{false};  // access was exchanged with devices known before

  std::atomic<DeviceFrees*> frees{nullptr};  // its queue of waiting blocks; made by WaitingFrees

  // Called when Devices has listed this Device (if two threads make one for a GPU, it lists only
  // one): lets other processes read its figures.
  void publish() noexcept { use.publish(); }
  // Called now and then by one thread. If another process has changed the limit of the group,
  // writes the new limit to the figures and the log.
  void look_at_group_limit();

 private:
  void write_figures();
};

}  // namespace cubfc
