#include "shim/device_memory.h"

#include <bit>
#include <limits>

#include "shim/log.h"

namespace cubfc {

class DeviceMemory::Stopwatch {
 public:
  explicit Stopwatch(DeviceMemory& memory)
      : memory_(memory), running_(memory.policy_.show_stats.value) {
    if (running_) {
      start_ = std::chrono::steady_clock::now();
    }
  }
  ~Stopwatch() {
    if (running_) {
      const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start_;
      memory_.spent_ns_.fetch_add(static_cast<std::uint64_t>(spent.count()),
                                  std::memory_order_relaxed);
    }
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  DeviceMemory& memory_;
  const bool running_;
  std::chrono::steady_clock::time_point start_;
};

FoundBlock find_block(const Contexts& contexts, CUdeviceptr address) {
  FoundBlock found{contexts.owner_of(address), false, {}};
  if (found.context != nullptr) {
    if (const auto info = found.context->arena.find_containing(address)) {
      found.live = true;
      found.info = *info;
    }
  }
  return found;
}

CUresult DeviceMemory::allocate(CUdeviceptr* address, std::size_t bytes) {
  const Stopwatch stopwatch(*this);
  // What is wrong with these the driver says best.
  Context* const context =
      address == nullptr || bytes == 0 ? nullptr : contexts_.current_to_allocate();
  if (context == nullptr) {
    return without_context(address, bytes);
  }
  return from_arena() ? allocate_from_arena(*context, address, bytes, "cuMemAlloc")
                      : allocate_from_driver(*context, address, bytes);
}

// The driver's answer to a request that no context's arena can serve. But a limit is not got round
// by a context that the driver, for a moment, cannot tell us of.
CUresult DeviceMemory::without_context(CUdeviceptr* address, std::size_t bytes) {
  CUcontext current = nullptr;
  const bool limited = policy_.limit_origin() != nullptr || policy_.limit_unreadable;
  if (limited && address != nullptr && bytes > 0 &&
      driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) {
    log::warn("the driver does not say what its current context is; refused: {} bytes", bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return driver_.cuMemAlloc_v2(address, bytes);
}

CUresult DeviceMemory::allocate_from_arena(Context& context, CUdeviceptr* address,
                                           std::size_t bytes, const char* function) {
  arena::Allocation got = context.arena.allocate(bytes);
  if (got.address == 0 && got.failure != arena::Failure::kSourceError &&
      got.failure != arena::Failure::kTooLarge) {
    const bool more = reclaim_parked(context);
    if (release_unused_of_device(context.device) || more) {
      const bool grew = got.grew;
      got = context.arena.allocate(bytes);
      got.grew = got.grew || grew;
    }
  }
  if (got.grew) {
    announce(context, policy_);
  }
  if (got.address == 0) {
    log::debug("{} of {} bytes failed: {}", function, bytes, arena::describe(got.failure));
    if (got.failure == arena::Failure::kSourceError) {
      return static_cast<CUresult>(got.source_error);
    }
    const RelaxedCapture relaxed(driver_, captures_);
    reporter_.report(driver_, policy_, context, function, bytes, got.failure);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = got.address;
  log::trace("{} {} bytes -> {:#x}", function, bytes, got.address);
  return CUDA_SUCCESS;
}

// What arenas of the device's other contexts hold without a block in it. True if there was
// anything.
bool DeviceMemory::release_unused_of_device(const Device& device) {
  std::uint64_t bytes = 0;
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    if (context->alive() && !context->ending && &context->device == &device) {
      bytes += context->arena.release_unused();
    }
  }
  return bytes > 0;
}

// One line when the arena's first region is there; at level warn when it is less than was asked
// for.
void DeviceMemory::announce(const Context& context, const config::Policy& policy) {
  const arena::Stats stats = context.arena.stats();
  if (stats.regions_obtained != 1 || !log::enabled(log::Level::kWarn)) {
    return;
  }
  const bool less = stats.pool_bytes + (64U << 20) < context.preallocation;
  const config::Origin* limit = policy.limit_origin();
  log::at(
      less ? log::Level::kWarn : log::Level::kInfo,
      "active on GPU {} ({}): arena {} of {}{}, {}; limit {}, free {} ({}); version " CUBFC_VERSION,
      context.device.handle, context.device.name, log::bytes(stats.pool_bytes),
      log::bytes(context.device.total_bytes),
      less ? fmt::format(" (asked for {}: the device has less)", log::bytes(context.preallocation))
           : "",
      config::name_of(policy.allocator.value),
      limit == nullptr ? "none"
                       : fmt::format("{} ({})", log::bytes(stats.bytes_limit), limit->text()),
      config::name_of(policy.free_mode.value), policy.free_mode.origin.text());
}

CUresult DeviceMemory::allocate_from_driver(Context& context, CUdeviceptr* address,
                                            std::size_t bytes) {
  if (!context.device.budget.take(bytes)) {
    ledger_.failed();
    reporter_.report(driver_, policy_, context, "cuMemAlloc", bytes, arena::Failure::kOverLimit);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUdeviceptr got = 0;
  const CUresult result = driver_.cuMemAlloc_v2(&got, bytes);
  if (result != CUDA_SUCCESS) {
    context.device.budget.give(bytes);
    ledger_.failed();
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      reporter_.report(driver_, policy_, context, "cuMemAlloc", bytes, arena::Failure::kExhausted);
    }
    return result;
  }
  const CUresult accounted = account(context, got, bytes);
  if (accounted == CUDA_SUCCESS) {
    *address = got;
    log::trace("cuMemAlloc {} bytes -> {:#x} (driver)", bytes, got);
  }
  return accounted;
}

// Enters what the driver gave and the budget has granted; gives both back when the host has no
// memory.
CUresult DeviceMemory::account(Context& context, CUdeviceptr address, std::size_t bytes) try {
  ledger_.add(address, {bytes, &context, context.id.load(std::memory_order_relaxed)});
  return CUDA_SUCCESS;
} catch (const std::bad_alloc&) {
  driver_.cuMemFree_v2(address);
  context.device.budget.give(bytes);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult DeviceMemory::allocate_pitch(CUdeviceptr* address, std::size_t* pitch, std::size_t width,
                                      std::size_t height, unsigned element_bytes) {
  const Stopwatch stopwatch(*this);
  const bool plain = address != nullptr && pitch != nullptr && width > 0 && height > 0;
  Context* const context = plain ? contexts_.current_to_allocate() : nullptr;
  const std::size_t alignment =
      context == nullptr ? 0 : pitch_alignment(context->device, element_bytes);
  int widest = 0;
  if (alignment == 0 ||
      driver_.cuDeviceGetAttribute(&widest, CU_DEVICE_ATTRIBUTE_MAX_PITCH,
                                   context->device.handle) != CUDA_SUCCESS ||
      width > static_cast<std::size_t>(widest)) {
    return driver_.cuMemAllocPitch_v2(address, pitch, width, height, element_bytes);
  }
  const std::size_t row_bytes = arena::round_up(width, alignment);
  const bool overflows = height > std::numeric_limits<std::size_t>::max() / row_bytes;
  const std::size_t bytes =
      overflows ? std::numeric_limits<std::size_t>::max() : row_bytes * height;
  const CUresult result = from_arena()
                              ? allocate_from_arena(*context, address, bytes, "cuMemAllocPitch")
                              : allocate_from_driver(*context, address, bytes);
  if (result == CUDA_SUCCESS) {
    *pitch = row_bytes;
  }
  return result;
}

// The driver's own rule, learnt once for each element size by asking for a row of one byte. 0: not
// a size that the driver takes.
std::size_t DeviceMemory::pitch_alignment(Device& device, unsigned element_bytes) {
  // cuda.h, cuMemAllocPitch: the element size must be 4, 8 or 16.
  if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) {
    return 0;
  }
  std::atomic<std::size_t>& known =
      device.pitch_alignment[static_cast<unsigned>(std::countr_zero(element_bytes))];
  std::size_t alignment = known.load(std::memory_order_relaxed);
  if (alignment == 0) {
    const RelaxedCapture relaxed(driver_, captures_);
    CUdeviceptr sample = 0;
    const auto ask = [&] {
      return driver_.cuMemAllocPitch_v2(&sample, &alignment, 1, 1, element_bytes);
    };
    CUresult result = ask();
    if (result == CUDA_ERROR_OUT_OF_MEMORY && release_unused_of_device(device)) {
      result = ask();
    }
    if (result != CUDA_SUCCESS) {
      return 0;
    }
    driver_.cuMemFree_v2(sample);
    known.store(alignment, std::memory_order_relaxed);
  }
  return alignment;
}

CUresult DeviceMemory::free(CUdeviceptr address) {
  const Stopwatch stopwatch(*this);
  Context* const context = contexts_.owner_of(address);
  if (context == nullptr) {
    return free_at_driver(address, [&] { return driver_.cuMemFree_v2(address); });
  }
  if (const CUresult refused = refused_without_context(address); refused != CUDA_SUCCESS) {
    return refused;
  }
  const CUresult result = free_block(*context, address);
  log::trace("cuMemFree {:#x}: {}", address, static_cast<int>(result));
  return result;
}

// The entry goes first: as soon as the driver has freed the memory, another thread may be given its
// address.
template <typename Free>
CUresult DeviceMemory::free_at_driver(CUdeviceptr address, Free free) {
  const auto entry = ledger_.remove(address);
  const CUresult result = free();
  if (entry && result == CUDA_SUCCESS) {
    entry->context->device.budget.give(entry->bytes);
    log::trace("cuMemFree {:#x} (driver)", address);
  } else if (entry) {
    ledger_.put_back(address, *entry);
  }
  return result;
}

// Without a current context the driver refuses a free, or does not: its word is had by asking it to
// free a pointer into a region, which it can only refuse.
CUresult DeviceMemory::refused_without_context(CUdeviceptr address) const {
  CUcontext current = nullptr;
  if (driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) {
    return CUDA_SUCCESS;
  }
  const CUresult result = driver_.cuMemFree_v2(address);
  return result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;
}

// Waits for the device, then frees. Where nothing may wait, the block stays retired until something
// can. An interior pointer, a double free: the driver must not see it, it knows only the region.
CUresult DeviceMemory::free_block(Context& context, CUdeviceptr address) {
  const DeviceWait wait(captures_);
  const CUresult result =
      wait.allowed() ? synchronize_and_reclaim(context) : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (result == CUDA_SUCCESS) {
    return context.arena.free(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (result != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) {
    return result;  // of earlier work; the free has not happened (cuda.h, cuMemFree)
  }
  return park(context, address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Waits for the device, and reclaims what was freed under a capture before. Precondition: a
// DeviceWait that is allowed.
CUresult DeviceMemory::synchronize_and_reclaim(const Context& owner) {
  // Taken before the wait: what is parked while it goes on may have been used by later work.
  const std::vector<Parked> ready = take_parked();
  const CUresult result = contexts_.synchronize(owner);
  for (const Parked& parked : ready) {
    if (result == CUDA_SUCCESS) {
      parked.context->arena.reclaim(parked.block);
    }
  }
  if (result != CUDA_SUCCESS && !ready.empty()) {
    const std::lock_guard lock(parked_mutex_);
    parked_.insert(parked_.end(), ready.begin(), ready.end());
    any_parked_.store(true, std::memory_order_release);
  }
  return result;
}

// True if memory that was freed under a capture may be free now.
bool DeviceMemory::reclaim_parked(const Context& owner) {
  const DeviceWait wait(captures_);
  return wait.allowed() && any_parked_.load(std::memory_order_acquire) &&
         synchronize_and_reclaim(owner) == CUDA_SUCCESS;
}

// Retires the block until something can wait for the device. False when there is no such block.
bool DeviceMemory::park(Context& context, CUdeviceptr address) {
  const std::lock_guard lock(parked_mutex_);
  parked_.reserve(parked_.size() + 1);  // before anything is changed
  const auto retired = context.arena.retire(address);
  if (retired) {
    parked_.push_back({&context, *retired});
    any_parked_.store(true, std::memory_order_release);
  }
  return retired.has_value();
}

std::vector<DeviceMemory::Parked> DeviceMemory::take_parked() {
  std::vector<Parked> taken;
  if (any_parked_.load(std::memory_order_acquire)) {
    const std::lock_guard lock(parked_mutex_);
    taken.swap(parked_);
    any_parked_.store(false, std::memory_order_release);
  }
  return taken;
}

CUresult DeviceMemory::free_async(CUdeviceptr address, CUstream stream, bool per_thread) {
  if (contexts_.owner_of(address) != nullptr) {
    return free(address);
  }
  return free_at_driver(address, [&] {
    return per_thread ? driver_.cuMemFreeAsync_ptsz(address, stream)
                      : driver_.cuMemFreeAsync(address, stream);
  });
}

CUresult DeviceMemory::info(std::size_t* free_bytes, std::size_t* total_bytes) {
  std::size_t device_free = 0;
  std::size_t device_total = 0;
  const CUresult result = driver_.cuMemGetInfo_v2(&device_free, &device_total);
  Context* const context = result == CUDA_SUCCESS ? contexts_.current() : nullptr;
  if (context == nullptr) {
    return result != CUDA_SUCCESS ? result : driver_.cuMemGetInfo_v2(free_bytes, total_bytes);
  }
  const arena::Budget& budget = context->device.budget;
  const std::uint64_t to_grow =
      std::min<std::uint64_t>(policy_.beyond_reserve(device_free), budget.left());
  const std::uint64_t total = policy_.limit_is_reported()
                                  ? std::min<std::uint64_t>(device_total, budget.limit())
                                  : device_total;
  if (free_bytes != nullptr) {
    *free_bytes = std::min<std::uint64_t>(context->arena.stats().free_bytes() + to_grow, total);
  }
  if (total_bytes != nullptr) {
    *total_bytes = total;
  }
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::total(std::size_t* bytes, CUdevice device) {
  const CUresult result = driver_.cuDeviceTotalMem_v2(bytes, device);
  if (result == CUDA_SUCCESS && policy_.limit_is_reported()) {
    *bytes = std::min<std::uint64_t>(*bytes, policy_.hard_limit(*bytes).value_or(*bytes));
  }
  return result;
}

CUdeviceptr DeviceMemory::try_allocate(std::size_t bytes) {
  Context* const context = bytes == 0 || !from_arena() ? nullptr : contexts_.current_to_allocate();
  if (context == nullptr) {
    return 0;
  }
  const Stopwatch stopwatch(*this);
  const CUdeviceptr address = context->arena.allocate_without_growth(bytes);
  if (address != 0) {
    log::trace("cudaMalloc {} bytes -> {:#x}", bytes, address);
  }
  return address;
}

bool DeviceMemory::try_free(CUdeviceptr address) {
  const FoundBlock found = find_block(contexts_, address);
  return found.live && found.info.address == address && free(address) == CUDA_SUCCESS;
}

}  // namespace cubfc
