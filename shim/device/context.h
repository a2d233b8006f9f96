// A context on a GPU, with its arena and the source of the arena's memory. Plain objects:
// contexts.h has the list of contexts.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "arena/arena.h"
#include "shim/device/device.h"
#include "shim/device/movable_pages.h"

namespace cubfc {

// Where the arena of a context takes its memory from.
class RegionSource : public arena::MemorySource {
 public:
  // Called when the context has ended; the Context may then serve a later one. Returns the memory
  // that the driver has not freed with the context; nullptr if there is none. Makes no driver call
  // and needs no host memory.
  virtual std::unique_ptr<Leftovers> leave_behind() noexcept { return nullptr; }
  // Whether the driver has IPC handles for this memory.
  virtual bool is_shareable() const noexcept = 0;
  // Whether giving memory back to the driver waits for the work of the context.
  virtual bool release_waits() const noexcept = 0;
  // nullptr: the memory cannot be taken away from under the arena's blocks.
  virtual MovablePages* movable() noexcept { return nullptr; }
};

// Whether every later call in the context fails with this error, too: work in the context has gone
// wrong, and the process must end (cuda.h).
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

// A context. The object is never destroyed, and may serve a later context of the same device. A
// thread that still has a pointer to it then finds an arena without the blocks of the ended
// context.
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
    kStarted = 1,      // memory was requested, and the arena has its options
    kEnding = 2,       // the driver has been asked to end it
    kBroken = 4,       // by an error that stays: requests go to the driver from then on
    kElsewhere = 8,    // its device's server is not By::kArena
    kObserved = 16,    // its arena keeps figures
    kListenedTo = 32,  // a request has failed: FailedRequests is told of those that succeed
  };
  std::atomic<std::uint8_t> state{0};  // bits of State
  // Devices whose memory the program has let this context reach (cuCtxEnablePeerAccess).
  std::atomic<PeerSet> reaches{0};
  const std::unique_ptr<RegionSource> memory;
  arena::Arena arena;
  // Bytes that the arena takes at its first allocation and keeps. Memory that was preallocated for
  // all arenas of the device is in Device::preallocation.
  std::atomic<std::uint64_t> preallocated{0};
  int users = 0;            // allowed ContextUse objects; ContextUses guards this and `ends`
  int ends = 0;             // ContextEnds under way that may end it
  References references;    // of a context that is not primary; else Device::references
  Context* next = nullptr;  // in the list of all; set once

  bool alive() const noexcept { return id.load(std::memory_order_acquire) != 0; }
  bool has(State bit) const noexcept { return (state.load(std::memory_order_acquire) & bit) != 0; }
  void set(State bit) noexcept { state.fetch_or(bit, std::memory_order_acq_rel); }
  void clear(State bit) noexcept {
    state.fetch_and(static_cast<std::uint8_t>(~bit), std::memory_order_acq_rel);
  }
  // Whether requests and frees may go to the arena without a further check.
  bool is_plain() const noexcept {
    return (state.load(std::memory_order_acquire) & ~(kObserved | kListenedTo)) == kStarted;
  }
  // To be called with the driver's answer to a call in this context.
  void note(CUresult result) noexcept {
    if (stays(result)) {
      set(kBroken);
    }
  }
  // Whether every call in the context fails with an error that stays. Asks the driver, but only
  // after a call of ours has seen such an error. Precondition: the context is current.
  bool is_broken(const DriverFunctions& driver);
  // Whether work in the context may use memory of that device: its own, or one that the program has
  // let it reach.
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
