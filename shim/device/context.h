// A context on a GPU, with its arena; and what an arena takes its memory from. Plain objects:
// contexts.h has the list of contexts.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "arena/arena.h"
#include "shim/device/device.h"

namespace cubfc {

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
