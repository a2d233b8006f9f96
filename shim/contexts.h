// The devices and contexts of the process that memory was allocated in, each context with its
// arena. Knows CUDA's rules about contexts; nothing of what a request means.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "config/policy.h"
#include "shim/captures.h"
#include "shim/driver.h"

namespace cubfc {

// A GPU. Made when first needed, never destroyed.
struct Device {
  Device(const DriverFunctions& driver, const config::Policy& policy, CUdevice device_handle);

  CUdevice handle;
  std::string name;
  std::uint64_t total_bytes = 0;
  arena::Budget budget;  // the hard limit, shared by all of the process's contexts on the device
  // The pitch of cuMemAllocPitch is a multiple of this, by log2 of the element size; 0: not asked
  // yet.
  std::atomic<std::size_t> pitch_alignment[5] = {};
};

// Regions by cuMemAlloc, in the context that is current when one is obtained.
class ContextMemory : public arena::MemorySource {
 public:
  ContextMemory(const DriverFunctions& driver, const config::Policy& policy,
                const Captures& captures)
      : driver_(driver), policy_(policy), captures_(captures) {}

  Region obtain(std::uint64_t bytes) noexcept override;
  void release(arena::Address base, std::uint64_t bytes) noexcept override;

  std::uint64_t driver_calls() const noexcept { return calls_.load(std::memory_order_relaxed); }

 private:
  const DriverFunctions& driver_;
  const config::Policy& policy_;
  const Captures& captures_;
  std::atomic<std::uint64_t> calls_{0};
};

// A context that memory was allocated in. Its object outlives it, and may serve a later context of
// the same device: a thread that still holds a pointer finds an arena in which its address is not.
struct Context {
  Context(Device& its_device, const DriverFunctions& driver, const config::Policy& policy,
          const Captures& captures)
      : device(its_device),
        memory(driver, policy, captures),
        arena(memory, its_device.budget, {}) {}

  Device& device;
  std::atomic<CUcontext> handle{nullptr};
  std::atomic<std::uint64_t> id{0};  // cuCtxGetId: handles are reused, ids are not. 0: it has ended
  std::atomic<bool> primary{false};
  ContextMemory memory;
  arena::Arena arena;
  std::uint64_t preallocation = 0;  // what was asked for
  Context* next = nullptr;          // in the list of all; set once

  bool alive() const noexcept { return id.load(std::memory_order_acquire) != 0; }
};

// Thread-safe. Its lock is never held across a driver call.
class Contexts {
 public:
  Contexts(const DriverFunctions& driver, const config::Policy& policy, Captures& captures)
      : driver_(driver), policy_(policy), captures_(captures) {}

  // The context that is current on this thread, known from now on; nullptr when none is, or the
  // driver cannot tell. A green context counts as the primary context whose memory it uses.
  Context* current();

  // Every context ever known, ended ones included (see Context::alive). Lock-free.
  Context* first() const noexcept { return first_.load(std::memory_order_acquire); }
  bool any() const noexcept { return first() != nullptr; }

  // The driver has ended a context: its memory is gone. `id` from id_of(), taken before it ended.
  void ended(std::uint64_t id);
  std::uint64_t id_of(CUcontext context) const;
  // The same for the primary context of a device. Returns its id, 0 when it was not known.
  std::uint64_t primary_ended(CUdevice device);
  bool primary_is_active(CUdevice device) const;
  // `context` was made from a green context.
  void is_green(CUcontext context);
  // A handle may now mean another context than before.
  void forget_handles() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }

  // Waits for all work that was submitted in any context known here, and in the current one.
  // Returns what `owner` reported. Precondition: no capture is open.
  CUresult synchronize(const Context& owner);

  Device* device(CUdevice handle);

  void after_fork_in_child() { new (&mutex_) std::mutex; }

 private:
  Context* find(std::uint64_t id) const noexcept;
  Context* make(CUcontext handle, std::uint64_t id);
  void end(Context& context);
  CUcontext primary_of(CUdevice device) const;
  CUresult synchronize_one(CUcontext context, CUcontext current);

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Captures& captures_;
  std::atomic<Context*> first_{nullptr};
  std::atomic<std::uint64_t> generation_{1};  // of what handles mean

  std::mutex mutex_;  // guards the rest, and changes of the list
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::uint64_t> green_ids_;
};

}  // namespace cubfc
