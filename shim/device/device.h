// A GPU; a context on it, with its arena; and what an arena takes its memory from. Plain objects:
// devices.h has the list of GPUs, contexts.h that of contexts.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "arena/arena.h"
#include "config/policy.h"
#include "shim/device/context_end.h"
#include "shim/device/peer_set.h"
#include "shim/device/server.h"
#include "shim/limit/callers.h"
#include "shim/limit/device_limit.h"
#include "shim/limit/device_use.h"
#include "shim/limit/preallocation.h"

namespace cubfc {

class DeviceFrees;

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

  const config::Policy& policy;  // for what is taken of it
  CUdevice handle;
  std::string name;
  const std::array<char, 16> id;  // its UUID, the same in every process; zeros: unknown
  std::uint64_t total_bytes = 0;
  DeviceUse use;
  DeviceLimit limit;
  Preallocation preallocation;          // of its arenas
  std::atomic<bool> is_offered{false};  // to other processes, by SoftReserve (background/)
  // Requests that are just taking memory from the driver, perhaps more than they need: who asks
  // this process for memory is told so, and waits for what will be left of it.
  std::atomic<int> takers{0};
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

 private:
  void write_figures();
};

// What a context's arena takes its memory from.
class RegionSource : public arena::MemorySource {
 public:
  // The context has ended, and its object may serve another: what did not go with it. nullptr when
  // there is nothing. No driver call, and needs no host memory.
  virtual std::unique_ptr<Leftovers> leave_behind() noexcept { return nullptr; }
  // Whether the driver has IPC handles for it.
  virtual bool is_shareable() const noexcept = 0;
  // Whether giving some of it back waits for the work of its context.
  virtual bool release_waits() const noexcept = 0;
};

// Whether every later call in the context answers this error, too: its work has gone wrong, and the
// process must end (cuda.h).
constexpr bool stays(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
      return true;
    default:
      return false;
  }
}

// A context. Its object outlives it, and may serve a later context of the same device: a thread
// that still holds a pointer finds an arena in which its address is not.
struct Context {
  Context(Device& its_device, std::unique_ptr<RegionSource> source)
      : device(its_device), memory(std::move(source)), arena(*memory, its_device.limit.budget, {}) {
    if (its_device.policy.observes()) {
      its_device.use.observe(arena);
    }
  }

  Device& device;
  std::atomic<CUcontext> handle{nullptr};
  std::atomic<std::uint64_t> id{0};  // cuCtxGetId: handles are reused, ids are not. 0: it has ended
  std::atomic<bool> primary{false};
  std::atomic<bool> announced{false};
  enum State : std::uint8_t {
    kStarted = 1,      // its arena has its options: memory was asked for
    kEnding = 2,       // the driver has been asked to end it
    kBroken = 4,       // by an error that stays: the driver answers for it from then on
    kElsewhere = 8,    // its device's blocks are no arena's
    kObserved = 16,    // its arena keeps figures
    kListenedTo = 32,  // a request has failed in it: of those that are served FailedRequests hears
  };
  std::atomic<std::uint8_t> state{0};  // bits
  // Devices whose memory the program lets it reach (cuCtxEnablePeerAccess).
  std::atomic<PeerSet> reaches{0};
  const std::unique_ptr<RegionSource> memory;
  arena::Arena arena;
  // Bytes that its arena takes at first, and keeps; what is the device's is in `preallocation`.
  std::atomic<std::uint64_t> preallocated{0};
  int users = 0;            // ContextUses that are allowed; guarded by ContextUses, as `ends` is
  int ends = 0;             // ContextEnds under way that may end it
  References references;    // if it is not primary; a primary context's are its Device's
  Context* next = nullptr;  // in the list of all; set once

  bool alive() const noexcept { return id.load(std::memory_order_acquire) != 0; }
  bool has(State bit) const noexcept { return (state.load(std::memory_order_acquire) & bit) != 0; }
  void set(State bit) noexcept { state.fetch_or(bit, std::memory_order_acq_rel); }
  void clear(State bit) noexcept {
    state.fetch_and(static_cast<std::uint8_t>(~bit), std::memory_order_acq_rel);
  }
  // Whether its arena serves, and nothing else is to be thought of.
  bool is_plain() const noexcept {
    return (state.load(std::memory_order_acquire) & ~(kObserved | kListenedTo)) == kStarted;
  }
  // To be called with what the driver has answered in it.
  void note(CUresult result) noexcept {
    if (stays(result)) {
      set(kBroken);
    }
  }
  // Whether every call in it answers an error that one of ours has seen. Asks the driver then.
  bool is_broken(const DriverFunctions& driver);
  // Whether its work may use memory of that device: of its own, or as the program has arranged.
  bool may_use(const Device& other) const {
    return &device == &other ||
           (reaches.load(std::memory_order_acquire) & peer_bit(other.handle)) != 0;
  }
  // See Server::headroom.
  arena::Headroom headroom() const { return device.server->headroom(*this); }
  // Whether the driver has IPC handles for its blocks.
  bool is_shareable() const { return device.server->is_shareable(*this); }
};

}  // namespace cubfc
