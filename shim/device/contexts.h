// The devices and contexts of the process. Knows CUDA's rules about contexts; nothing of what a
// request means.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/device/context_end.h"
#include "shim/device/device.h"
#include "shim/device/server.h"
#include "shim/driver/captures.h"

namespace cubfc {

// Thread-safe. Its lock is never held across a driver call.
class Contexts {
 public:
  Contexts(const DriverFunctions& driver, const config::Policy& policy, Captures& captures);

  // The context that is current on this thread; nullptr when none is, or the driver fails when it
  // is asked. A green context counts as the primary context whose memory it uses.
  Context* current();
  // The same, its arena ready: what is to be preallocated is settled by what is free at the first
  // call.
  Context* current_to_allocate();

  // A GPU; nullptr when the driver does not tell what memory it has. Throws std::bad_alloc.
  Device* device(CUdevice handle);
  // Every device known so far. The lock is for the list: a Device, once made, stays.
  template <typename Do>
  void for_each_device(Do what) const {
    for (std::size_t i = 0;; ++i) {
      Device* device = nullptr;
      {
        const std::lock_guard lock(mutex_);
        if (i >= devices_.size()) {
          return;
        }
        device = devices_[i].get();
      }
      what(*device);
    }
  }
  // The one that the pool's memory is on; nullptr if the pool is not known.
  Device* device_of(CUmemoryPool pool) noexcept;
  // Pools of the device, or of all, give back what nothing is allocated in, where there is a limit
  // or a pool of ours. True if there was anything.
  bool trim_pools(const Device* device) noexcept;

  // Every context ever known, ended ones included (see Context::alive). Lock-free.
  Context* first() const noexcept { return first_.load(std::memory_order_acquire); }
  // The context in whose arena's regions an address lies; nullptr if in none.
  Context* owner_of(CUdeviceptr address) const noexcept;
  // The block beside all arenas that contains the address, whether live or not.
  std::optional<Server::Block> find_beside_arenas(CUdeviceptr address) const noexcept;
  // Blocks of some device are reached by another only where that was given access.
  bool any_needs_access() const noexcept {
    return any_needs_access_.load(std::memory_order_acquire);
  }
  bool any_beside_arenas() const noexcept {
    return any_beside_arenas_.load(std::memory_order_acquire);
  }
  // More than one context is alive, of this device or, if it is nullptr, of any.
  bool several_alive(const Device* device = nullptr) const noexcept;

  // The driver has made a context, or handed out the primary one.
  void created(CUcontext handle, CUdevice device);
  // `context` was made from a green context.
  void is_green(CUcontext context);
  // Of which device a green context is; nothing where it was not seen to be made.
  void green_made(const void* green, CUdevice device);
  void green_ended(const void* green);
  std::optional<CUdevice> device_of_green(const void* green) const;

  // The program has taken a reference: by cuDevicePrimaryCtxRetain or cuGreenCtxCreate to the
  // device's primary context, by cuCtxAttach to this one.
  void reference_taken(CUdevice device);
  void reference_taken(Context& context);

  // Who is told of each end from now on. Before the first context is known.
  void tell(ContextListener& listener) { listeners_.push_back(&listener); }
  // A handle may from now on mean another context than before.
  void forget_handles() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }

  // Waits for all work that was submitted in any context known here, and in the current one.
  // Returns what `owner` reported; CUDA_ERROR_NOT_READY when a context that may be ending could not
  // be waited for. Precondition: a DeviceWait that is allowed.
  CUresult synchronize(const Context& owner);

 private:
  friend class ContextEnd;
  friend class ContextUse;

  // For ContextEnd. Before the driver's call:
  References* references_to(CUcontext handle, std::optional<CUdevice> device) const;
  CUcontext handle_of_primary(CUdevice device) const;
  Context* known_as(CUcontext handle, std::uint64_t* its_id = nullptr) const;
  // After it: the context is dropped if it has ended; after giving up a reference all are that are
  // gone, among the primary contexts and `handle`, if not nullptr.
  void ended(Context* context, std::uint64_t id, CUcontext handle, bool success);
  void drop_all_gone(CUcontext handle);
  void forget_references(CUdevice device);

  Device* known_device(CUdevice handle) const;
  Device* find_device(CUdevice handle) const;
  Device* find_or_make_device(CUdevice handle);
  void introduce(Device& newcomer);
  void give_access(Device& owner, CUdevice peer);
  Context* find(std::uint64_t id) const noexcept;
  Context* find_or_make(CUcontext handle, std::uint64_t id, CUdevice device);
  bool start(Context& context);
  enum class Needed : bool { kNo, kByOtherCalls };
  void drop(Context& context, std::uint64_t id, Needed leftovers);
  bool is_gone(const Context& context) const;
  std::uint64_t id_of(CUcontext context) const;
  std::optional<CUcontext> primary_of(CUdevice device) const;
  bool is_known_green(std::uint64_t id);
  CUresult synchronize_one(CUcontext context, CUcontext current);

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Captures& captures_;
  std::atomic<Context*> first_{nullptr};
  std::atomic<std::uint64_t> generation_{1};  // of what handles mean
  std::atomic<bool> any_needs_access_{false};
  std::atomic<bool> any_beside_arenas_{false};  // a device has blocks that are in no arena

  mutable std::mutex mutex_;  // guards the rest, and changes of the list
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::uint64_t> green_ids_;
  std::map<const void*, CUdevice> greens_;

  ContextUses uses_;
  std::vector<ContextListener*> listeners_;
};

// While it lives and is allowed(), the context does not end: cuda.h (cuCtxDestroy) makes that the
// duty of whoever calls into it, and what is given back of its memory is still its own. While a
// call that may end it is under way, waits for that if it is to, but not for long: a hook of the
// program's may have called on that call's thread.
class ContextUse {
 public:
  enum class Waits : bool { kNo, kYes };
  ContextUse(Contexts& contexts, Context& context, Waits waits = Waits::kYes)
      : uses_(contexts.uses_), context_(context) {
    std::unique_lock lock(uses_.mutex_);
    if (waits == Waits::kYes && context.ends > 0) {
      uses_.wait_for_ends(lock, context);
    }
    allowed_ = context.ends == 0 && context.alive();
    context_.users += allowed_ ? 1 : 0;
  }
  ~ContextUse() {
    if (!allowed_) {
      return;
    }
    const std::lock_guard lock(uses_.mutex_);
    --context_.users;
    if (context_.ends > 0) {
      uses_.changed_.notify_all();  // who is to end it waits
    }
  }
  ContextUse(const ContextUse&) = delete;
  ContextUse& operator=(const ContextUse&) = delete;
  bool allowed() const { return allowed_; }

 private:
  ContextUses& uses_;
  Context& context_;
  bool allowed_;
};

}  // namespace cubfc
