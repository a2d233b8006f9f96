// The contexts of the process. Knows CUDA's rules about them; nothing of what a request means.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/device/context.h"
#include "shim/device/context_end.h"
#include "shim/device/green_contexts.h"
#include "shim/driver/driver.h"

namespace cubfc {

class Captures;
class Devices;
class WaitPermit;

// Thread-safe. Its lock is never held across a driver call.
class Contexts {
 public:
  Contexts(const DriverFunctions& driver, Devices& devices, Captures& captures);

  Devices& devices() const { return devices_; }
  GreenContexts& greens() { return greens_; }

  // The context that is current on this thread; nullptr when none is, or the driver fails when it
  // is asked. A green context counts as the primary context whose memory it uses.
  Context* current() {
    Context* const known = current_if_remembered();
    return known != nullptr ? known : look_up_current();
  }
  // As current(), but only if this thread has looked this context up before, and forget_handles()
  // was not called since; else nullptr. Makes one driver call; throws nothing and holds nothing
  // meanwhile, so the thread may be cancelled in it. The driver is asked each time, because the
  // program changes the current context by calls that cubfc does not intercept. It is asked for the
  // id (cuda.h, cuCtxGetId of nullptr), because a handle may mean another context by now.
  Context* current_if_remembered() {
    unsigned long long id = 0;
    const bool is_known = driver_.cuCtxGetId(nullptr, &id) == CUDA_SUCCESS &&
                          id == remembered_.id &&
                          remembered_.generation == generation_.load(std::memory_order_acquire);
    return is_known ? remembered_.context : nullptr;
  }
  // As current(). The first call for a context also gives its arena the options: what is free on
  // the device at that moment decides how much is preallocated.
  Context* current_to_allocate();

  // Every context ever known, ended ones included (see Context::alive). Lock-free.
  Context* first() const noexcept { return first_.load(std::memory_order_acquire); }
  // Each context of the device that is alive.
  template <typename Do>
  void for_each_alive_on(const Device& device, Do what) const {
    for (Context* context = first(); context != nullptr; context = context->next) {
      if (context->alive() && &context->device == &device) {
        what(*context);
      }
    }
  }
  // The context in whose arena's regions an address lies; nullptr if in none. Lock-free.
  Context* owner_of_region(CUdeviceptr address) const noexcept;
  // As owner_of_region(); if there is none, the context that has the block there from cubfc's pool.
  // nullptr: the memory is the driver's.
  Context* owner_of(CUdeviceptr address) const noexcept;

  // Called when the driver has made a context, or handed out the primary one. Throws
  // std::bad_alloc.
  void created(CUcontext handle, CUdevice device);
  // Called after cuCtxFromGreenCtx: this context came from a green one, so current() gives the
  // device's primary context for it. Throws std::bad_alloc.
  void turned_green(CUcontext context);

  // Called when the program has taken a reference: to the device's primary context, by
  // cuDevicePrimaryCtxRetain or cuGreenCtxCreate, or to this context, by cuCtxAttach.
  void reference_taken(CUdevice device);
  void reference_taken(Context& context) { uses_.taken(context.references); }

  // Registers a listener. Called only while Process is made, so there is no lock.
  void add_listener(ContextListener& listener) { listeners_.push_back(&listener); }
  // Called when a context may have ended. Makes every thread look its current context up again: a
  // handle may mean another context by now.
  void forget_handles() noexcept { generation_.fetch_add(1, std::memory_order_acq_rel); }

  // Called before the program lets the current context use memory of the device of the context
  // `peer`.
  void peer_access_will_be_enabled(CUcontext peer);

  // Whether the current context is in the list, or no context is current. False for a green
  // context, and for one about which the driver gave no answer when it was looked up.
  bool knows_current() const;
  // What the driver has free of the device, in bytes; nothing if there is no context in which it
  // can be asked.
  std::optional<std::uint64_t> free_at_driver(const Device& device) const;
  // Waits for the work that was submitted in every context that may use memory of the owner's
  // device, in `others`, and in the current one if it is not known here. Returns what `owner`
  // reported; CUDA_ERROR_NOT_READY when a context that may be ending could not be waited for, or a
  // capture has begun meanwhile. Precondition: the permit is given. `current`: what current() has
  // just answered, if it was asked.
  CUresult synchronize(const Context& owner, WaitPermit& permit,
                       const std::vector<Context*>& others = {}, const Context* current = nullptr);

 private:
  friend class ContextEnd;
  friend class ContextUse;

  // For ContextEnd. Before the driver's call:
  References* references_to(CUcontext handle, std::optional<CUdevice> device) const;
  CUcontext handle_of_primary(CUdevice device) const;
  Context* known_as(CUcontext handle, std::uint64_t* its_id = nullptr) const;
  // After the driver's call: ended() drops the context if the call was a success. drop_all_gone()
  // is for a call that gives up a reference: it looks at all primary contexts and at the context of
  // `handle`, and drops those that are gone.
  void ended(Context* context, std::uint64_t id, CUcontext handle, bool success);
  void drop_all_gone(CUcontext handle);
  void drop_others_of(CUcontext handle, std::uint64_t id);
  void forget_references(CUdevice device);

  // What this thread's current context was when it was last looked up.
  struct Remembered {
    std::uint64_t id = 0;
    std::uint64_t generation = 0;
    Context* context = nullptr;
  };
  static constinit thread_local Remembered remembered_;

  Context* look_up_current();
  Context* find(std::uint64_t id) const noexcept;
  Context* find_or_make(CUcontext handle, std::uint64_t id, CUdevice device);
  void start(Context& context);
  enum class Needed : bool { kNo, kByOtherCalls };
  void drop(Context& context, std::uint64_t id, Needed leftovers);
  bool is_gone(const Context& context) const;
  CUcontext handle_of_current(const Context* context) const;
  CUresult synchronize_one(CUcontext context, CUcontext current);

  const DriverFunctions& driver_;
  Devices& devices_;
  Captures& captures_;
  GreenContexts greens_;
  std::atomic<Context*> first_{nullptr};
  std::atomic<std::uint64_t> generation_{1};  // raised by forget_handles()

  // Guards changes of the list, and which of the driver's contexts each Context stands for.
  mutable std::mutex mutex_;
  ContextUses uses_;
  std::vector<ContextListener*> listeners_;
};

}  // namespace cubfc
