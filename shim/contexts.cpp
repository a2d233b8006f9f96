#include "shim/contexts.h"

#include <algorithm>
#include <array>

#include "shim/log.h"

namespace cubfc {
namespace {

std::uint64_t limit_of(const DriverFunctions& driver, const config::Policy& policy,
                       CUdevice device) {
  std::size_t total = 0;
  driver.cuDeviceTotalMem_v2(&total, device);
  return policy.hard_limit(total).value_or(arena::Budget::kUnlimited);
}

// What this thread's current context was when it was last looked up.
struct Remembered {
  CUcontext handle;
  std::uint64_t generation;
  Context* context;
};
thread_local Remembered remembered{};

}  // namespace

Device::Device(const DriverFunctions& driver, const config::Policy& policy, CUdevice device_handle)
    : handle(device_handle), budget(limit_of(driver, policy, device_handle)) {
  std::array<char, 256> text{};
  driver.cuDeviceGetName(text.data(), static_cast<int>(text.size() - 1), handle);
  name = text.data();
  std::size_t total = 0;
  driver.cuDeviceTotalMem_v2(&total, handle);
  total_bytes = total;
}

arena::MemorySource::Region ContextMemory::obtain(std::uint64_t bytes) noexcept {
  const RelaxedCapture relaxed(driver_, captures_);
  if (policy_.reserve.value > 0) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
        bytes > policy_.beyond_reserve(free_bytes)) {
      return {0, CUDA_ERROR_OUT_OF_MEMORY, true};
    }
  }
  CUdeviceptr base = 0;
  const CUresult result = driver_.cuMemAlloc_v2(&base, bytes);
  log::debug("region of {}: driver says {}", log::bytes(bytes), static_cast<int>(result));
  if (result != CUDA_SUCCESS) {
    return {0, static_cast<int>(result), result == CUDA_ERROR_OUT_OF_MEMORY};
  }
  calls_.fetch_add(1, std::memory_order_relaxed);
  return {base, 0, false};
}

void ContextMemory::release(arena::Address base, std::uint64_t bytes) noexcept {
  const RelaxedCapture relaxed(driver_, captures_);
  const CUresult result = driver_.cuMemFree_v2(base);
  calls_.fetch_add(1, std::memory_order_relaxed);
  log::debug("region of {} given back: driver says {}", log::bytes(bytes),
             static_cast<int>(result));
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
  std::uint64_t id = id_of(handle);
  if (id == 0) {
    return nullptr;
  }
  bool green = false;
  {
    const std::lock_guard lock(mutex_);
    green = std::find(green_ids_.begin(), green_ids_.end(), id) != green_ids_.end();
  }
  CUcontext memory_handle = handle;
  if (green) {
    CUdevice device = 0;
    if (driver_.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        (memory_handle = primary_of(device)) == nullptr) {
      return nullptr;
    }
    id = id_of(memory_handle);
  }
  Context* context = find(id);
  if (context == nullptr) {
    context = make(memory_handle, id);
  }
  remembered = {handle, generation, context};
  return context;
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

// Precondition: the context, or a green one of its device, is current.
Context* Contexts::make(CUcontext handle, std::uint64_t id) {
  CUdevice device_handle = 0;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const RelaxedCapture relaxed(driver_, captures_);
  if (driver_.cuCtxGetDevice(&device_handle) != CUDA_SUCCESS ||
      driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
    return nullptr;
  }
  Device* const its_device = device(device_handle);
  const bool primary = primary_of(device_handle) == handle;
  const std::uint64_t preallocation = policy_.preallocation(free_bytes, total_bytes);

  const std::lock_guard lock(mutex_);
  if (Context* known = find(id); known != nullptr) {
    return known;  // another thread was quicker
  }
  Context* context = first();
  while (context != nullptr && (context->alive() || &context->device != its_device)) {
    context = context->next;
  }
  const bool fresh = context == nullptr;
  if (fresh) {
    context = new Context(*its_device, driver_, policy_, captures_);
  }
  context->handle = handle;
  context->primary = primary;
  context->preallocation = preallocation;
  context->arena.begin({preallocation});
  context->id.store(id, std::memory_order_release);
  if (fresh) {
    context->next = first();
    first_.store(context, std::memory_order_release);
  }
  return context;
}

Device* Contexts::device(CUdevice handle) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& known : devices_) {
      if (known->handle == handle) {
        return known.get();
      }
    }
  }
  auto made = std::make_unique<Device>(driver_, policy_, handle);
  const std::lock_guard lock(mutex_);
  for (const auto& known : devices_) {
    if (known->handle == handle) {
      return known.get();
    }
  }
  devices_.push_back(std::move(made));
  return devices_.back().get();
}

void Contexts::ended(std::uint64_t id) {
  forget_handles();
  if (Context* context = id == 0 ? nullptr : find(id); context != nullptr) {
    end(*context);
  }
}

bool Contexts::primary_is_active(CUdevice device) const {
  unsigned flags = 0;
  int active = 1;
  return driver_.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

std::uint64_t Contexts::primary_ended(CUdevice device) {
  forget_handles();
  for (Context* context = first(); context != nullptr; context = context->next) {
    if (context->alive() && context->primary && context->device.handle == device) {
      const std::uint64_t id = context->id;
      end(*context);
      return id;
    }
  }
  return 0;
}

void Contexts::end(Context& context) {
  log::debug("context {} on GPU {} has ended: its arena is dropped", context.id.load(),
             context.device.handle);
  captures_.context_ended(context.handle);
  context.arena.abandon();
  context.id.store(0, std::memory_order_release);
}

void Contexts::is_green(CUcontext context) {
  const std::uint64_t id = id_of(context);
  forget_handles();
  const std::lock_guard lock(mutex_);
  green_ids_.push_back(id);
}

// The primary context's handle if it is active; asking never makes it active.
CUcontext Contexts::primary_of(CUdevice device) const {
  unsigned flags = 0;
  int active = 0;
  CUcontext primary = nullptr;
  if (driver_.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active == 0 ||
      driver_.cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS) {
    return nullptr;
  }
  driver_.cuDevicePrimaryCtxRelease_v2(device);
  return primary;
}

CUresult Contexts::synchronize(const Context& owner) {
  CUcontext current = nullptr;
  driver_.cuCtxGetCurrent(&current);
  CUresult of_owner = CUDA_SUCCESS;
  bool current_done = current == nullptr;
  for (Context* context = first(); context != nullptr; context = context->next) {
    if (!context->alive()) {
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
  return of_owner;
}

CUresult Contexts::synchronize_one(CUcontext context, CUcontext current) {
  if (context == current) {
    return driver_.cuCtxSynchronize();
  }
  CUresult result = driver_.cuCtxPushCurrent_v2(context);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuCtxSynchronize();
    CUcontext popped = nullptr;
    driver_.cuCtxPopCurrent_v2(&popped);
  }
  return result;
}

}  // namespace cubfc
