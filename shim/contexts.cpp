#include "shim/contexts.h"

#include <algorithm>
#include <chrono>

#include "shim/log.h"
#include "shim/mapped_memory.h"
#include "shim/own_pool.h"
#include "shim/pushed_context.h"

namespace cubfc {
namespace {

// What this thread's current context was when it was last looked up.
struct Remembered {
  CUcontext handle;
  std::uint64_t generation;
  Context* context;
};
thread_local Remembered remembered{};

constexpr std::chrono::seconds kPatience{2};

std::size_t place_of(CUdevice device) {
  return static_cast<std::size_t>(device) % std::tuple_size_v<Contexts::LastRemains>;
}

// This part of what is preallocated is a region for a few small blocks.
constexpr std::uint64_t kSmallRegionShare = 256;

}  // namespace

Contexts::Contexts(const DriverFunctions& driver, const config::Policy& policy, Captures& captures)
    : driver_(driver), policy_(policy), captures_(captures) {
  for (std::shared_ptr<Remains>& each : last_remains_) {
    each = std::make_shared<Remains>();
  }
}

Context* Contexts::current() {
  CUcontext handle = nullptr;
  if (driver_.cuCtxGetCurrent(&handle) != CUDA_SUCCESS || handle == nullptr) {
    return nullptr;
  }
  const std::uint64_t generation = generation_.load(std::memory_order_acquire);
  if (remembered.handle == handle && remembered.generation == generation) {
    return remembered.context;
  }
  const RelaxedCapture relaxed(driver_);
  CUdevice device = 0;
  std::uint64_t id = id_of(handle);
  if (id == 0 || driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS) {
    return nullptr;
  }
  CUcontext memory_handle = handle;
  if (is_known_green(id)) {
    memory_handle = primary_of(device).value_or(nullptr);
    id = memory_handle == nullptr ? 0 : id_of(memory_handle);
  }
  Context* const context = id == 0 ? nullptr : find_or_make(memory_handle, id, device);
  if (context == nullptr) {
    return nullptr;  // and not remembered: the next call asks again
  }
  remembered = {handle, generation, context};
  return context;
}

Context* Contexts::current_to_allocate() {
  Context* const context = current();
  const bool ready = context != nullptr && (context->started || start(*context));
  return ready ? context : nullptr;
}

Context* Contexts::owner_of(CUdeviceptr address) const noexcept {
  Context* owner = nullptr;
  std::uint64_t newest = 0;
  for (Context* context = first(); context != nullptr; context = context->next) {
    if (!context->alive() || context->ending) {
      continue;
    }
    if (const std::uint64_t number = context->arena.region_at(address); number > newest) {
      newest = number;
      owner = context;
    }
  }
  return owner;
}

std::optional<OwnPool::Block> Contexts::find_in_pool(CUdeviceptr address) const noexcept {
  std::optional<OwnPool::Block> block;
  if (policy_.allocator.value == config::Allocator::kCudaAsync) {
    for_each_device([&](const Device& device) {
      if (!block && device.own_pool != nullptr) {
        block = device.own_pool->find(address);
      }
    });
  }
  return block;
}

bool Contexts::several_alive(const Device* device) const noexcept {
  int alive = 0;
  for (const Context* context = first(); context != nullptr; context = context->next) {
    alive += context->alive() && (device == nullptr || &context->device == device) ? 1 : 0;
  }
  return alive > 1;
}

// A device is known now that was not: it may use the memory of the others, and they its. Two
// threads that come upon it do the same, rather than one go on before the other is done.
void Contexts::introduce(Device& newcomer) {
  for_each_device([&](Device& other) {
    if (&other != &newcomer) {
      give_access(other, newcomer.handle);
      give_access(newcomer, other.handle);
    }
  });
}

// What is mapped, or in the pool, from now on has the access from the beginning.
void Contexts::give_access(Device& owner, CUdevice peer) {
  int can = 0;
  if (!owner.needs_access() || driver_.cuDeviceCanAccessPeer == nullptr || peer >= kMostPeers ||
      driver_.cuDeviceCanAccessPeer(&can, peer, owner.handle) != CUDA_SUCCESS || can == 0) {
    return;
  }
  owner.peers.fetch_or(peer_bit(peer));
  if (owner.own_pool != nullptr) {
    owner.own_pool->give_access(peer);
  }
  for (Context* context = first(); context != nullptr; context = context->next) {
    if (&context->device == &owner) {
      context->memory->give_access(peer);
    }
  }
}

std::uint64_t Contexts::id_of(CUcontext context) const {
  unsigned long long id = 0;
  return driver_.cuCtxGetId(context, &id) == CUDA_SUCCESS ? id : 0;
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
  Device* const its_device = device(device_handle);
  const std::optional<CUcontext> primary = primary_of(device_handle);
  if (its_device == nullptr || !primary) {
    return nullptr;  // what is to be known of it for as long as it lives, the driver must tell
  }
  const std::lock_guard lock(mutex_);
  if (Context* known = find(id); known != nullptr) {
    return known;  // another thread was quicker
  }
  Context* context = first();
  {
    // One that a call may still be ending stays out of use: that call would hold up this context.
    const std::lock_guard end_lock(end_mutex_);
    while (context != nullptr &&
           (context->alive() || context->ends > 0 || &context->device != its_device)) {
      context = context->next;
    }
  }
  const bool fresh = context == nullptr;
  if (fresh) {
    context = new Context(*its_device, source_for(*its_device));
  }
  context->handle = handle;
  context->primary = *primary == handle;
  context->ending = false;
  context->started = false;
  context->announced = false;
  context->id.store(id, std::memory_order_release);
  if (fresh) {
    context->next = first();
    first_.store(context, std::memory_order_release);
  }
  return context;
}

std::unique_ptr<RegionSource> Contexts::source_for(Device& device) const {
  if (device.page_bytes > 0) {
    return std::make_unique<MappedMemory>(driver_, policy_, device);
  }
  return std::make_unique<ContextMemory>(driver_, policy_, device);
}

// Gives the arena its options, by what is free now. Precondition: the context, or a green one of
// its device, is current. False when the driver cannot tell what is free.
bool Contexts::start(Context& context) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const RelaxedCapture relaxed(driver_);
  if (driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  if (!context.started) {
    context.preallocation = policy_.preallocation(free_bytes, total_bytes);
    context.arena.begin(
        {context.preallocation, context.preallocation / kSmallRegionShare,
         context.device.managed ? arena::kLargestRequestBytes : context.device.total_bytes});
    context.started = true;
  }
  return true;
}

Device* Contexts::device(CUdevice handle) {
  Device* const found = find_or_make_device(handle);
  if (found != nullptr && !found->introduced.load()) {
    introduce(*found);
    found->introduced.store(true);
  }
  return found;
}

Device* Contexts::find_or_make_device(CUdevice handle) {
  const auto known = [&]() -> Device* {
    for (const auto& each : devices_) {
      if (each->handle == handle) {
        return each.get();
      }
    }
    return nullptr;
  };
  {
    const std::lock_guard lock(mutex_);
    if (Device* device = known(); device != nullptr) {
      return device;
    }
  }
  std::size_t total_bytes = 0;
  if (driver_.cuDeviceTotalMem_v2(&total_bytes, handle) != CUDA_SUCCESS) {
    return nullptr;
  }
  auto made = std::make_unique<Device>(driver_, policy_, handle, total_bytes);
  const std::lock_guard lock(mutex_);
  if (Device* device = known(); device != nullptr) {
    return device;  // another thread was quicker
  }
  return devices_.emplace_back(std::move(made)).get();
}

Device* Contexts::device_of(CUmemoryPool pool) noexcept {
  Device* its_device = nullptr;
  for_each_device([&](Device& device) {
    its_device = its_device == nullptr && device.pools.has(pool) ? &device : its_device;
  });
  return its_device;
}

bool Contexts::trim_pools(const Device* only) noexcept {
  bool any = false;
  for_each_device([&](Device& device) {
    const bool concerned = only == nullptr || only == &device;
    if (concerned && (device.own_pool != nullptr || device.pools.counts())) {
      any = device.pools.trim() || any;
    }
  });
  return any;
}

void Contexts::created(CUcontext handle, CUdevice device) {
  if (const std::uint64_t id = id_of(handle); id != 0) {
    find_or_make(handle, id, device);
  }
}

void Contexts::is_green(CUcontext context) {
  const std::uint64_t id = id_of(context);
  forget_handles();
  const std::lock_guard lock(mutex_);
  green_ids_.push_back(id);
}

bool Contexts::is_known_green(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  return std::find(green_ids_.begin(), green_ids_.end(), id) != green_ids_.end();
}

Contexts::Use::Use(Contexts& contexts, Context& context, Waits waits)
    : contexts_(contexts), context_(context) {
  std::unique_lock lock(contexts_.end_mutex_);
  if (waits == Waits::kYes) {
    contexts_.end_changed_.wait_for(lock, kPatience,
                                    [&] { return context.ends == 0 || !context.alive(); });
  }
  allowed_ = context.ends == 0 && context.alive();
  context_.users += allowed_ ? 1 : 0;
}

Contexts::Use::~Use() {
  if (allowed_) {
    const std::lock_guard lock(contexts_.end_mutex_);
    --context_.users;
    contexts_.end_changed_.notify_all();
  }
}

Contexts::MayEnd::MayEnd(Contexts& contexts, const EndOf& which)
    : contexts_(contexts), device_(which.device), begin_(contexts.first()) {
  if (which.handle != nullptr) {
    while (begin_ != nullptr && !(begin_->alive() && begin_->handle == which.handle)) {
      begin_ = begin_->next;
    }
    end_ = begin_ == nullptr ? nullptr : begin_->next;
  }
  std::unique_lock lock(contexts_.end_mutex_);
  const Device* const only =
      which.handle != nullptr && begin_ != nullptr ? &begin_->device : nullptr;
  for (std::size_t place = 0; place < remains_.size(); ++place) {
    const bool of_device = device_ && place_of(*device_) == place;
    const bool of_handle = only != nullptr && place_of(only->handle) == place;
    if (of_device || of_handle || (!device_ && which.handle == nullptr)) {
      remains_[place] = contexts_.last_remains_[place];
    }
  }
  for (Context* context = begin_; context != end_; context = context->next) {
    context->ends += concerns(*context) ? 1 : 0;
  }
  contexts_.end_changed_.wait_for(lock, kPatience, [&] {
    for (const Context* context = begin_; context != end_; context = context->next) {
      if (concerns(*context) && context->users > 0) {
        return false;
      }
    }
    return true;
  });
}

// Of a context object it is always the same.
bool Contexts::MayEnd::concerns(const Context& context) const {
  return !device_ || context.device.handle == *device_;
}

Contexts::MayEnd::~MayEnd() {
  const std::lock_guard lock(contexts_.end_mutex_);
  for (Context* context = begin_; context != end_; context = context->next) {
    context->ends -= concerns(*context) ? 1 : 0;
  }
  contexts_.end_changed_.notify_all();
}

Contexts::Ending Contexts::will_end(CUcontext handle) {
  forget_handles();
  const std::uint64_t driver_says = handle == nullptr ? 0 : id_of(handle);
  for (Context* context = first(); context != nullptr && handle != nullptr;
       context = context->next) {
    const std::uint64_t id = context->id.load(std::memory_order_acquire);
    if (id != 0 && (driver_says != 0 ? id == driver_says : context->handle == handle)) {
      context->ending = true;
      return {context, id, handle};
    }
  }
  return {nullptr, 0, handle};
}

Contexts::Ending Contexts::primary_will_end(CUdevice device) {
  if (const auto handle = primary_of(device)) {
    return will_end(*handle);
  }
  for (const Context* context = first(); context != nullptr; context = context->next) {
    if (context->alive() && context->primary && context->device.handle == device) {
      return will_end(context->handle);
    }
  }
  return {};
}

std::uint64_t Contexts::ended(const Ending& ending, bool success) {
  if (success && ending.handle != nullptr) {
    captures_.context_ended(ending.handle);
  }
  if (ending.context == nullptr) {
    return 0;
  }
  if (!success) {
    ending.context->ending = false;
    return 0;
  }
  return drop(*ending.context, ending.id, false) ? ending.id : 0;
}

std::uint64_t Contexts::drop_one_gone(CUcontext handle) {
  forget_handles();
  for (Context* context = first(); context != nullptr; context = context->next) {
    const std::uint64_t id = context->id.load(std::memory_order_acquire);
    if (id != 0 && (context->primary || context->handle == handle) && is_gone(*context)) {
      captures_.context_ended(context->handle);
      // The driver call that ends it may still be waiting for its work, on another thread.
      if (drop(*context, id, true)) {
        return id;
      }
    }
  }
  return 0;
}

// A reference may have been taken again meanwhile, by which the handle means a context of another
// id.
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

// The driver takes its memory back, or has done so already; what does not go with it is given back
// now, or when all calls are over that may end a context. False when another thread was quicker.
bool Contexts::drop(Context& context, std::uint64_t id, bool may_be_in_use) {
  std::shared_ptr<Remains> remains;
  {
    const std::lock_guard lock(mutex_);
    if (context.id != id) {
      return false;
    }
    log::debug("context {} on GPU {} has ended: its arena is dropped", id, context.device.handle);
    OwnPool* const pool = context.device.own_pool.get();
    remains = pool != nullptr ? pool->leave_behind(id) : context.memory->leave_behind();
    context.arena.abandon();
    context.ending = false;
    context.id.store(0, std::memory_order_release);
  }
  if (remains != nullptr && may_be_in_use) {
    const std::lock_guard lock(end_mutex_);
    std::shared_ptr<Remains>& last = last_remains_[place_of(context.device.handle)];
    last->memory = std::move(remains->memory);
    last->next = remains;
    last.swap(remains);
  }
  return true;  // gives back what nobody needs, without a lock
}

// The primary context's handle, nullptr if it is not active: asking never makes it active. Nothing
// if the driver cannot tell.
std::optional<CUcontext> Contexts::primary_of(CUdevice device) const {
  unsigned flags = 0;
  int active = 0;
  CUcontext primary = nullptr;
  if (driver_.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  if (active == 0) {
    return nullptr;
  }
  if (driver_.cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS) {
    return std::nullopt;
  }
  driver_.cuDevicePrimaryCtxRelease_v2(device);
  return primary;
}

CUresult Contexts::synchronize(const Context& owner) {
  CUcontext current = nullptr;
  driver_.cuCtxGetCurrent(&current);
  CUresult of_owner = CUDA_SUCCESS;
  bool all = true;
  bool current_done = current == nullptr;
  for (Context* context = first(); context != nullptr; context = context->next) {
    const Use use(*this, *context);
    if (!use.allowed()) {
      all = all && !context->alive();
      continue;
    }
    const CUcontext handle = context->handle;
    const CUresult result = synchronize_one(handle, current);
    current_done = current_done || handle == current;
    if (context == &owner) {
      of_owner = result;
    }
  }
  if (!current_done) {
    driver_.cuCtxSynchronize();
  }
  return of_owner == CUDA_SUCCESS && !all ? CUDA_ERROR_NOT_READY : of_owner;
}

CUresult Contexts::synchronize_one(CUcontext context, CUcontext current) {
  if (context == current) {
    return driver_.cuCtxSynchronize();
  }
  const PushedContext inside(driver_, context);
  return inside.pushed() ? driver_.cuCtxSynchronize() : inside.result();
}

}  // namespace cubfc
