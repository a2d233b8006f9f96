#include "shim/ask/physical_memory.h"

#include <optional>
#include <utility>

#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/serve/driver_requests.h"
#include "shim/tell/log.h"

namespace cubfc {

CUresult PhysicalMemory::create(Handle* handle, std::size_t bytes,
                                const CUmemAllocationProp* properties, unsigned long long flags) {
  const auto call = [&] { return driver_.cuMemCreate(handle, bytes, properties, flags); };
  const bool of_device = handle != nullptr && bytes > 0 && properties != nullptr &&
                         properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  Device* const device = of_device ? contexts_.devices().get(properties->location.id) : nullptr;
  if (device == nullptr) {
    return call();  // not a device's memory, or a request that the driver refuses
  }
  std::optional<Claim> claim;
  const std::uint64_t held_ready = device->preallocation.bytes();
  const CUresult result = requests_.claim_and_call({*device, Memory::kMapped, bytes, "cuMemCreate"},
                                                   claim, call, [] {});
  if (result != CUDA_SUCCESS) {
    return result;
  }
  claim->begin_use();
  if (device->preallocation.bytes() < held_ready) {
    tell_of_preallocation(*device, held_ready);
  }
  try {
    Shared memory = std::make_shared<Claim>(std::move(*claim));
    const std::lock_guard lock(mutex_);
    handles_.insert_or_assign(*handle, Reference{std::move(memory), 1});
  } catch (const std::bad_alloc&) {
    driver_.cuMemRelease(*handle);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  log::trace("cuMemCreate {} bytes -> handle {:#x}", bytes, *handle);
  return CUDA_SUCCESS;
}

// Logs, once for each device, that memory that was preallocated for arenas was given back for the
// program's cuMemCreate.
void PhysicalMemory::tell_of_preallocation(const Device& device,
                                           std::uint64_t held_ready) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << (static_cast<unsigned>(device.handle) % 64);
  if ((told_of_.fetch_or(bit) & bit) == 0) {
    log::info(
        "GPU {}: the program allocates by cuMemCreate; the {} that are preallocated serve these "
        "requests. CUBFC_PREALLOCATE=false preallocates nothing",
        device.handle, log::bytes(held_ready));
  }
}

// The reference is given up before the driver's call: as soon as the driver has let go of the
// handle, another thread may be given it.
CUresult PhysicalMemory::release(Handle handle) {
  Reference last{nullptr, 0};
  {
    const std::lock_guard lock(mutex_);
    const auto found = handles_.find(handle);
    if (found != handles_.end() && --found->second.count == 0) {
      last = std::move(found->second);
      handles_.erase(found);
    } else if (found != handles_.end()) {
      last.memory = found->second.memory;
    }
  }
  const CUresult result = driver_.cuMemRelease(handle);
  if (result != CUDA_SUCCESS && last.memory != nullptr) {
    const std::lock_guard lock(mutex_);
    ++handles_.try_emplace(handle, Reference{last.memory, 0}).first->second.count;
  }
  return result;
}

PhysicalMemory::Shared PhysicalMemory::memory_of(Handle handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second.memory;
}

CUresult PhysicalMemory::map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                             Handle handle, unsigned long long flags) {
  std::map<CUdeviceptr, Mapping> mapped;
  if (Shared memory = memory_of(handle); memory != nullptr) {
    mapped.emplace(address, Mapping{bytes, std::move(memory)});
  }
  const CUresult result = driver_.cuMemMap(address, bytes, offset, handle, flags);
  if (result == CUDA_SUCCESS && !mapped.empty()) {
    const std::lock_guard lock(mutex_);
    mappings_.erase(address);
    mappings_.merge(mapped);
  }
  return result;
}

CUresult PhysicalMemory::unmap(CUdeviceptr address, std::size_t bytes) {
  std::map<CUdeviceptr, Mapping> unmapped;
  {
    const std::lock_guard lock(mutex_);
    for (auto each = mappings_.lower_bound(address);
         each != mappings_.end() && each->first - address < bytes;) {
      unmapped.insert(mappings_.extract(each++));
    }
  }
  const CUresult result = driver_.cuMemUnmap(address, bytes);
  if (result != CUDA_SUCCESS) {
    const std::lock_guard lock(mutex_);
    mappings_.merge(unmapped);
  }
  return result;
}

void PhysicalMemory::retained(Handle handle, CUdeviceptr address) noexcept try {
  const std::lock_guard lock(mutex_);
  if (const auto known = handles_.find(handle); known != handles_.end()) {
    ++known->second.count;
    return;
  }
  const auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) {
    return;
  }
  const auto& [start, mapping] = *std::prev(after);
  if (address - start < mapping.bytes) {
    handles_.insert_or_assign(handle, Reference{mapping.memory, 1});
  }
} catch (const std::bad_alloc&) {  // no host memory: it is counted only while it is mapped
}

}  // namespace cubfc
