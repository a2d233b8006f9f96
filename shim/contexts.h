// The devices and contexts of the process. Knows CUDA's rules about contexts; nothing of what a
// request means.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/captures.h"
#include "shim/device.h"
#include "shim/own_pool.h"

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
  // The block of a device's own pool that contains the address, whether live or not.
  std::optional<OwnPool::Block> find_in_pool(CUdeviceptr address) const noexcept;
  // More than one context is alive, of this device or, if it is nullptr, of any.
  bool several_alive(const Device* device = nullptr) const noexcept;

  // The driver has made a context, or handed out the primary one.
  void created(CUcontext handle, CUdevice device);
  // `context` was made from a green context.
  void is_green(CUcontext context);

  // While it lives and is allowed(), the context does not end: cuda.h (cuCtxDestroy) makes that the
  // duty of whoever calls into it, and what is given back of its memory is still its own. While a
  // call that may end it is under way, waits if it is to, but not for long: a hook may have called
  // on that call's thread.
  class Use {
   public:
    enum class Waits : bool { kNo, kYes };
    Use(Contexts& contexts, Context& context, Waits waits = Waits::kYes);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    bool allowed() const { return allowed_; }

   private:
    Contexts& contexts_;
    Context& context_;
    bool allowed_;
  };
  // What a driver call may end: the context of this handle if it is not nullptr, else contexts of
  // this device, else any.
  struct EndOf {
    CUcontext handle = nullptr;
    std::optional<CUdevice> device = std::nullopt;
  };
  // By device, several of which may share a place.
  using LastRemains = std::array<std::shared_ptr<Remains>, 8>;
  // Around such a call. Waits for those who use what may end, but not for long.
  class MayEnd {
   public:
    MayEnd(Contexts& contexts, const EndOf& which);
    ~MayEnd();
    MayEnd(const MayEnd&) = delete;
    MayEnd& operator=(const MayEnd&) = delete;

   private:
    bool concerns(const Context& context) const;

    Contexts& contexts_;
    const std::optional<CUdevice> device_;
    Context* begin_;  // of the list: those up to `end_` are concerned, if they are of the device
    Context* end_ = nullptr;
    LastRemains remains_;  // of what ends meanwhile: the driver may still use it
  };

  // Around a driver call that ends a context if it succeeds. In between no address is looked up in
  // its arena: the driver may already give its memory to others.
  struct Ending {
    Context* context = nullptr;
    std::uint64_t id = 0;
    CUcontext handle = nullptr;
  };
  Ending will_end(CUcontext handle);
  Ending primary_will_end(CUdevice device);
  // Returns the id of the context that has ended, 0 if none that was known.
  std::uint64_t ended(const Ending& ending, bool success);

  // After a driver call that may have ended contexts by giving up a reference: drops one that is
  // gone, among all primary contexts and `handle`, if not nullptr. Returns its id, 0 if none is.
  std::uint64_t drop_one_gone(CUcontext handle);
  // A handle may from now on mean another context than before.
  void forget_handles() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }

  // Waits for all work that was submitted in any context known here, and in the current one.
  // Returns what `owner` reported; CUDA_ERROR_NOT_READY when a context that may be ending could not
  // be waited for. Precondition: a DeviceWait that is allowed.
  CUresult synchronize(const Context& owner);

 private:
  Device* find_or_make_device(CUdevice handle);
  void introduce(Device& newcomer);
  void give_access(Device& owner, CUdevice peer);
  Context* find(std::uint64_t id) const noexcept;
  Context* find_or_make(CUcontext handle, std::uint64_t id, CUdevice device);
  std::unique_ptr<RegionSource> source_for(Device& device) const;
  bool start(Context& context);
  bool drop(Context& context, std::uint64_t id, bool may_be_in_use);
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

  mutable std::mutex mutex_;  // guards the rest, and changes of the list
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::uint64_t> green_ids_;

  std::mutex end_mutex_;  // guards each Context's `users` and `ends`, and
  LastRemains last_remains_;
  std::condition_variable end_changed_;
};

}  // namespace cubfc
