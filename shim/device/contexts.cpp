#include "shim/device/contexts.h"

#include <algorithm>

#include "shim/device/context_use.h"
#include "shim/device/devices.h"
#include "shim/driver/captures.h"
#include "shim/driver/context_queries.h"
#include "shim/driver/pushed_context.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/tell/log.h"

namespace cubfc {

constinit thread_local Contexts::Remembered Contexts::remembered_;

Contexts::Contexts(const DriverFunctions& driver, Devices& devices, Captures& captures)
    : driver_(driver), devices_(devices), captures_(captures) {}

Context* Contexts::look_up_current() {
  CUcontext handle = nullptr;
  if (driver_.cuCtxGetCurrent(&handle) != CUDA_SUCCESS || handle == nullptr) {
    return nullptr;
  }
  const std::uint64_t its_id = id_of(driver_, handle);
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  const RelaxedCapture relaxed(driver_);
  CUdevice device = 0;
  std::uint64_t id = its_id;
  if (id == 0 || driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS) {
    return nullptr;
  }
  CUcontext memory_handle = handle;
  if (greens_.is_green(id)) {
    memory_handle = primary_of(driver_, device).value_or(nullptr);
    id = memory_handle == nullptr ? 0 : id_of(driver_, memory_handle);
  }
  if (id != 0) {
    drop_others_of(memory_handle, id);
  }
  Context* const context = id == 0 ? nullptr : find_or_make(memory_handle, id, device);
  if (context == nullptr) {
    return nullptr;  // and not remembered: the next call asks again
  }
  remembered_ = {its_id, generation, context};
  return context;
}

Context* Contexts::current_to_allocate() {
  Context* const context = current();
  if (context != nullptr && !context->has(Context::kStarted)) {
    start(*context);
  }
  return context;
}

Context* Contexts::owner_of_region(CUdeviceptr address) const noexcept {
  Context* owner = nullptr;
  std::uint64_t newest = 0;
  for (Context* context = first(); context != nullptr; context = context->next) {
    if (!context->alive() || context->has(Context::kEnding)) {
      continue;
    }
    if (const std::uint64_t number = context->arena.region_at(address); number > newest) {
      newest = number;
      owner = context;
    }
  }
  return owner;
}

Context* Contexts::owner_of(CUdeviceptr address) const noexcept {
  if (Context* const context = owner_of_region(address); context != nullptr) {
    return context;
  }
  const auto block = devices_.find_beside_arenas(address);
  return block ? block->context : nullptr;
}

Context* Contexts::find(std::uint64_t id) const noexcept {
  for (Context* context = first(); context != nullptr; context = context->next) {
    if (context->id.load(std::memory_order_acquire) == id) {
      return context;
    }
  }
  return nullptr;
}

Context* Contexts::find_or_make(CUcontext handle, std::uint64_t id, CUdevice device_handle) {
  if (Context* known = find(id); known != nullptr) {
    return known;
  }
  Device* const its_device = devices_.get(device_handle);
  const std::optional<CUcontext> primary = primary_of(driver_, device_handle);
  if (its_device == nullptr || !primary) {
    // While a Context stands for a context, its device and whether it is primary do not change. So
    // no Context is given before both are known; the next call asks the driver again.
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  if (Context* known = find(id); known != nullptr) {
    return known;  // another thread was quicker
  }
  Context* context = first();
  {
    // An ended Context may be used again for this one, but not while a call may still be ending the
    // context that it stood for: our threads are kept out of such a Context.
    const std::lock_guard uses_lock(uses_.mutex_);
    while (context != nullptr &&
           (context->alive() || context->ends > 0 || &context->device != its_device)) {
      context = context->next;
    }
  }
  const bool fresh = context == nullptr;
  if (fresh) {
    context = new Context(*its_device, its_device->server->make_source());
  }
  {
    const std::lock_guard uses_lock(uses_.mutex_);
    context->references.held = 1;
  }
  context->handle = handle;
  context->primary = *primary == handle;
  context->reaches = 0;
  context->state = static_cast<std::uint8_t>(
      (its_device->server->by == Server::By::kArena ? 0 : Context::kElsewhere) |
      (its_device->policy.observes() ? Context::kObserved : 0));
  context->announced = false;
  context->id.store(id, std::memory_order_release);
  if (fresh) {
    context->next = first();
    first_.store(context, std::memory_order_release);
  }
  return context;
}

// Gives the arena its options, which depend on what is free on the device now. Precondition: the
// context, or a green one of its device, is current. If the driver cannot tell how many bytes are
// free, they count as 0.
void Contexts::start(Context& context) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const RelaxedCapture relaxed(driver_);
  if (driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
    free_bytes = 0;
    total_bytes = context.device.total_bytes;
  }
  const std::lock_guard lock(mutex_);
  if (!context.has(Context::kStarted)) {
    Device& device = context.device;
    const arena::Options options =
        device.begin_arena(device.policy.preallocation(free_bytes, total_bytes, device.handle));
    context.preallocated = options.preallocate_bytes;
    context.arena.begin(options);
    context.set(Context::kStarted);
  }
}

void Contexts::created(CUcontext handle, CUdevice device) {
  if (const std::uint64_t id = id_of(driver_, handle); id != 0) {
    find_or_make(handle, id, device);
  }
}

void Contexts::turned_green(CUcontext context) {
  const std::uint64_t id = id_of(driver_, context);
  greens_.turned_into(id);
  forget_handles();  // from here on look_up_current() finds it green
}

void Contexts::reference_taken(CUdevice device) {
  if (Device* const known = devices_.known(device); known != nullptr) {
    uses_.taken(known->references);
  }
}

void Contexts::forget_references(CUdevice device) {
  if (Device* const known = devices_.known(device); known != nullptr) {
    uses_.forgotten(known->references);
  }
}

// The count of references to the context of this handle, or else to the primary context of this
// device; nullptr if they are not counted.
References* Contexts::references_to(CUcontext handle, std::optional<CUdevice> device) const {
  if (handle != nullptr) {
    Context* const context = known_as(handle);
    return context == nullptr || context->primary ? nullptr : &context->references;
  }
  Device* const known = device ? devices_.known(*device) : nullptr;
  return known == nullptr ? nullptr : &known->references;
}

// The handle of the device's primary context; nullptr if there is none.
CUcontext Contexts::handle_of_primary(CUdevice device) const {
  if (const auto handle = primary_of(driver_, device)) {
    return *handle;
  }
  for (const Context* context = first(); context != nullptr; context = context->next) {
    if (context->alive() && context->primary && context->device.handle == device) {
      return context->handle;  // the driver could not tell
    }
  }
  return nullptr;
}

// The context that this handle means, nullptr if it is not known here.
Context* Contexts::known_as(CUcontext handle, std::uint64_t* its_id) const {
  const std::uint64_t driver_says = handle == nullptr ? 0 : id_of(driver_, handle);
  for (Context* context = first(); context != nullptr && handle != nullptr;
       context = context->next) {
    const std::uint64_t id = context->id.load(std::memory_order_acquire);
    if (id != 0 && (driver_says != 0 ? id == driver_says : context->handle == handle)) {
      if (its_id != nullptr) {
        *its_id = id;
      }
      return context;
    }
  }
  return nullptr;
}

void Contexts::ended(Context* context, std::uint64_t id, CUcontext handle, bool success) {
  if (success && handle != nullptr) {
    captures_.context_ended(handle);
  }
  if (context != nullptr && success) {
    drop(*context, id, Needed::kNo);
  } else if (context != nullptr) {
    context->clear(Context::kEnding);
  }
}

void Contexts::drop_all_gone(CUcontext handle) {
  forget_handles();
  for (Context* context = first(); context != nullptr; context = context->next) {
    const std::uint64_t id = context->id.load(std::memory_order_acquire);
    if (id != 0 && (context->primary || context->handle == handle) && is_gone(*context)) {
      captures_.context_ended(context->handle);
      // The driver's call that has ended the context may be another thread's, and may still wait
      // for work of the context.
      drop(*context, id, Needed::kByOtherCalls);
    }
  }
}

// The handle now means the context of this id. Drops any other context that had the handle and is
// gone: a call that cubfc has not seen has ended it.
void Contexts::drop_others_of(CUcontext handle, std::uint64_t id) {
  for (Context* context = first(); context != nullptr; context = context->next) {
    const std::uint64_t other = context->id.load(std::memory_order_acquire);
    if (other != 0 && other != id && context->handle == handle && is_gone(*context)) {
      captures_.context_ended(handle);
      drop(*context, other, Needed::kByOtherCalls);
    }
  }
}

// Whether the context has ended. If the program has made a primary context again since, its handle
// means a context of another id.
bool Contexts::is_gone(const Context& context) const {
  unsigned flags = 0;
  int active = 1;
  if (context.primary &&
      driver_.cuDevicePrimaryCtxGetState(context.device.handle, &flags, &active) == CUDA_SUCCESS &&
      active == 0) {
    return true;
  }
  unsigned long long id = 0;
  const CUresult result = driver_.cuCtxGetId(context.handle, &id);
  return result == CUDA_SUCCESS ? id != context.id : result != CUDA_ERROR_DEINITIALIZED;
}

// Called when the context has ended: empties its arena, and tells the listeners. Memory that the
// driver does not free with the context is given back now, or when all calls are over that may
// still need it. Does nothing if another thread was quicker.
void Contexts::drop(Context& context, std::uint64_t id, Needed needed) {
  std::unique_ptr<Leftovers> leftovers;  // given back without a lock
  {
    const std::lock_guard lock(mutex_);
    if (context.id != id) {
      return;
    }
    log::debug("context {} on GPU {} has ended: its arena is dropped", id, context.device.handle);
    leftovers = context.device.server->leave_behind(context, id);
    context.arena.abandon();
    context.state = 0;
    context.id.store(0, std::memory_order_release);
  }
  forget_handles();
  if (leftovers != nullptr && needed == Needed::kByOtherCalls) {
    leftovers = uses_.keep(std::move(leftovers), context.device.handle);
  }
  leftovers.reset();
  for (ContextListener* listener : listeners_) {
    listener->context_ended(id);
  }
}

void Contexts::peer_access_will_be_enabled(CUcontext peer) {
  PeerSet reached = ~PeerSet{0};  // all devices, if the driver does not tell which
  if (const Context* const known = known_as(peer); known != nullptr) {
    reached = peer_bit(known->device.handle);
  } else {
    const PushedContext inside(driver_, peer);
    CUdevice device = 0;
    if (inside.pushed() && driver_.cuCtxGetDevice(&device) == CUDA_SUCCESS) {
      reached = peer_bit(device);
    }
  }
  Context* const user = current();
  for (Context* context = first(); context != nullptr; context = context->next) {
    if (user == nullptr || context == user) {  // all contexts, if the driver does not tell which
      context->reaches.fetch_or(reached, std::memory_order_acq_rel);
    }
  }
}

bool Contexts::knows_current() const {
  CUcontext current = nullptr;
  driver_.cuCtxGetCurrent(&current);
  return current == nullptr || known_as(current) != nullptr;
}

// The handle of the context that is current on this thread. `context`: what current() has just
// answered, or nullptr. The driver is not asked if that context itself is current. It is asked if a
// green context may be current, for which current() answers the primary context.
CUcontext Contexts::handle_of_current(const Context* context) const {
  CUcontext current = nullptr;
  if (context != nullptr && remembered_.context == context && remembered_.id == context->id) {
    current = context->handle;
  } else {
    driver_.cuCtxGetCurrent(&current);
  }
  return current;
}

CUresult Contexts::synchronize(const Context& owner, WaitPermit& permit,
                               const std::vector<Context*>& others, const Context* known_current) {
  const CUcontext current = handle_of_current(known_current);
  CUresult of_owner = CUDA_SUCCESS;
  bool all = true;
  bool knows_current = current == nullptr;
  for (Context* context = first(); context != nullptr; context = context->next) {
    const CUcontext handle = context->handle;
    const bool is_current = handle == current && context->alive();
    knows_current = knows_current || is_current;
    if (!context->may_use(owner.device) &&
        std::find(others.begin(), others.end(), context) == others.end()) {
      continue;
    }
    // The current context needs no ContextUse: the program must not end a context that it is
    // calling into (cuda.h, cuCtxDestroy).
    std::optional<ContextUse> use;
    if (!is_current) {
      use.emplace(*this, *context, ContextUse::Waits::kNo);
    }
    if ((use && !use->allowed()) || !permit.given()) {
      all = all && !context->alive();
      continue;
    }
    const CUresult result = permit.block([&] { return synchronize_one(handle, current); });
    context->note(result);
    if (context == &owner) {
      of_owner = result;
    } else if (result != CUDA_SUCCESS && !stays(result)) {
      // The driver has refused to wait, perhaps because of a capture. (After an error that stays,
      // no work is left to wait for.)
      all = false;
    }
  }
  if (!knows_current) {  // the current one is green, or not known here
    all = permit.given() &&
          permit.block([&] { return driver_.cuCtxSynchronize(); }) == CUDA_SUCCESS && all;
  }
  return of_owner == CUDA_SUCCESS && !all ? CUDA_ERROR_NOT_READY : of_owner;
}

CUresult Contexts::synchronize_one(CUcontext context, CUcontext current) {
  if (context == current) {
    return driver_.cuCtxSynchronize();
  }
  if (driver_.cuCtxSynchronize_v2 != nullptr) {  // since CUDA 13
    return driver_.cuCtxSynchronize_v2(context);
  }
  const PushedContext inside(driver_, context);
  return inside.pushed() ? driver_.cuCtxSynchronize() : inside.result();
}

std::optional<std::uint64_t> Contexts::free_at_driver(const Device& device) const {
  std::optional<std::uint64_t> bytes;
  for_each_alive_on(device, [&](const Context& context) {
    if (bytes) {
      return;
    }
    const RelaxedCapture relaxed(driver_);
    const PushedContext inside(driver_, context.handle);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (inside.pushed() && driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
      bytes = free_bytes;
    }
  });
  return bytes;
}

}  // namespace cubfc
