#include "shim/servers/mapped_memory.h"

#include <algorithm>
#include <array>
#include <utility>

#include "config/arena_options.h"
#include "shim/driver/physical.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/servers/preallocated.h"
#include "shim/tell/log.h"

namespace cubfc {

std::uint64_t MappedMemory::page_bytes_for(const DriverFunctions& driver, const Device& device) {
  const bool has_functions = driver.cuMemAddressReserve != nullptr &&
                             driver.cuMemAddressFree != nullptr && driver.cuMemMap != nullptr &&
                             driver.cuMemUnmap != nullptr && driver.cuMemSetAccess != nullptr;
  const std::uint64_t granularity =
      has_functions && !device.managed ? physical_granularity(driver, device.handle) : 0;
  const std::uint64_t most = std::min(device.total_bytes, device.limit.at_first);
  return granularity == 0 ? 0 : config::page_bytes(most, granularity);
}

CUresult MappedMemory::try_page(const DriverFunctions& driver, CUdevice device,
                                std::uint64_t page_bytes) noexcept {
  const RelaxedCapture relaxed(driver);
  const CUmemAllocationProp properties = page_properties(driver, device);
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle handle = 0;
  if (const CUresult refused = driver.cuMemAddressReserve(&base, page_bytes, page_bytes, 0, 0);
      refused != CUDA_SUCCESS) {
    return refused;
  }
  CUresult result = driver.cuMemCreate(&handle, page_bytes, &properties, 0);
  if (result == CUDA_SUCCESS) {
    result = driver.cuMemMap(base, page_bytes, 0, handle, 0);
    if (result == CUDA_SUCCESS) {
      result = driver.cuMemSetAccess(base, page_bytes, &access, 1);
      driver.cuMemUnmap(base, page_bytes);
    }
    driver.cuMemRelease(handle);
  } else if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    result = CUDA_SUCCESS;
  }
  driver.cuMemAddressFree(base, page_bytes);
  return result;
}

CUmemAllocationProp MappedMemory::page_properties(const DriverFunctions& driver,
                                                  CUdevice device) noexcept {
  CUmemAllocationProp properties = physical_memory_of(driver, device);
  properties.allocFlags.usage = decompresses(driver, device) ? kForDecompression : 0;
  return properties;
}

arena::MemorySource::Region MappedMemory::obtain(std::uint64_t /*bytes*/) noexcept {
  return {0, CUDA_ERROR_NOT_SUPPORTED, false};
}

void MappedMemory::release(std::span<const Extent> /*regions*/) noexcept {}

MappedMemory::Holdings::~Holdings() {
  const RelaxedCapture relaxed(driver);
  release_all(driver, pages, page_bytes);
  release_all(driver, away, page_bytes);
  for (const auto& [address, page] : spare) {
    driver.cuMemRelease(page.handle);
  }
  for (const auto& [base, bytes] : ranges) {
    driver.cuMemAddressFree(base, bytes);
  }
  budget.give(left_behind_bytes);
}

std::shared_ptr<MappedMemory::Holdings> MappedMemory::holdings() {
  const std::lock_guard lock(mutex_);
  return holdings_;
}

// The driver does not free physical memory with a context.
std::unique_ptr<Leftovers> MappedMemory::leave_behind() noexcept {
  const std::lock_guard lock(mutex_);
  is_held_ = false;
  if (holdings_ == nullptr) {
    return nullptr;
  }
  // The arena next gives up a claim on the limit for each of these pages (Arena::abandon()), also
  // for those that are away without memory and have none. So each is claimed once more. The claims
  // of pages with memory last until the driver has the memory.
  const std::size_t at_hand = holdings_->pages.size() + holdings_->spare.size();
  holdings_->left_behind_bytes = (at_hand + count_with_memory(holdings_->away)) * page_bytes_;
  holdings_->budget.force((at_hand + holdings_->away.size()) * page_bytes_);
  leftovers_->memory = std::exchange(holdings_, nullptr);
  return std::exchange(leftovers_, nullptr);
}

arena::MemorySource::Region MappedMemory::reserve(std::uint64_t bytes) noexcept try {
  const RelaxedCapture relaxed(driver_);
  {
    const std::lock_guard lock(mutex_);
    if (holdings_ == nullptr) {
      leftovers_ = std::make_unique<Leftovers>();
      holdings_ = std::make_shared<Holdings>(*this);
    }
  }
  std::map<arena::Address, std::uint64_t> range{{0, bytes}};  // what needs host memory comes first
  CUdeviceptr base = 0;
  const CUresult result = driver_.cuMemAddressReserve(&base, bytes, page_bytes_, 0, 0);
  device_.use.driver_called();
  log::debug("addresses for {}: driver says {}", log::bytes(bytes), name_of(driver_, result));
  if (result != CUDA_SUCCESS) {
    return {0, static_cast<int>(result), false};
  }
  auto entry = range.extract(range.begin());
  entry.key() = base;
  {
    const std::lock_guard lock(mutex_);
    if (holdings_ != nullptr) {
      holdings_->ranges.insert(std::move(entry));
      return {base, 0, false};
    }
  }
  driver_.cuMemAddressFree(base, bytes);  // the context has ended meanwhile
  return {0, CUDA_ERROR_CONTEXT_IS_DESTROYED, false};
} catch (const std::bad_alloc&) {
  return {0, CUDA_ERROR_OUT_OF_MEMORY, false};
}

// Gets one page: a spare one if there is any, else from the driver. Returns the driver's answer.
CUresult MappedMemory::create(Handle& handle) {
  {
    const std::lock_guard lock(mutex_);
    if (holdings_ != nullptr && !holdings_->spare.empty()) {
      handle = holdings_->spare.begin()->second.handle;
      holdings_->spare.erase(holdings_->spare.begin());
      return CUDA_SUCCESS;
    }
  }
  device_.use.driver_called();
  return driver_.cuMemCreate(&handle, page_bytes_, &page_properties_, 0);
}

// Gets a page for each address of the range, until the driver refuses one. Returns the driver's
// answer. Throws std::bad_alloc.
CUresult MappedMemory::make(arena::Address base, std::uint64_t bytes, Pages& made) {
  CUresult result = CUDA_SUCCESS;
  for (arena::Address page = base; page < base + bytes && result == CUDA_SUCCESS;
       page += page_bytes_) {
    const auto entry = made.emplace(page, Page{}).first;
    result = create(entry->second.handle);
    if (result != CUDA_SUCCESS) {
      made.erase(entry);
    }
  }
  return result;
}

// Makes the pages spare. If the context has ended they stay in `made`, for the caller to release.
void MappedMemory::keep_as_spare(Pages& made, const Holdings* of_context) {
  const std::lock_guard lock(mutex_);
  if (holdings_.get() == of_context) {
    holdings_->spare.merge(made);
  }
}

// Gives the peers, and with Own::kYes the memory's own device, access to mapped pages. Returns the
// driver's answer.
CUresult MappedMemory::set_access(arena::Address base, std::uint64_t bytes, Own own,
                                  PeerSet peers) {
  std::array<CUmemAccessDesc, kMostPeers + 1> access{};
  std::size_t count = 0;
  const auto give = [&](CUdevice device) {
    CUmemAccessDesc& each = access.at(count++);
    each.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    each.location.id = device;
    each.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  };
  if (own == Own::kYes) {
    give(device_.handle);
  }
  for_each_peer(peers, give);
  device_.use.driver_called();
  return driver_.cuMemSetAccess(base, bytes, access.data(), count);
}

// Gives the device and its peers access to pages that have just been mapped, and enters them. If
// the peers cannot be given access, access for the device itself is enough. Fails if the context
// has ended. Returns the driver's answer.
CUresult MappedMemory::enter(arena::Address base, std::uint64_t bytes, Pages& made,
                             const Holdings* of_context) {
  for (;;) {
    const PeerSet peers = device_.peers.load();
    CUresult result = set_access(base, bytes, Own::kYes, peers);
    if (result != CUDA_SUCCESS && peers != 0) {
      log::warn("other GPUs could not be given access to memory of GPU {}: driver says {}",
                device_.handle, name_of(driver_, result));
      result = set_access(base, bytes, Own::kYes, 0);
    }
    if (result != CUDA_SUCCESS) {
      return result;
    }
    const std::lock_guard lock(mutex_);
    if (holdings_.get() != of_context) {
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    if (device_.peers.load() == peers) {
      holdings_->pages.merge(made);
      return CUDA_SUCCESS;
    }  // else a peer was added meanwhile, and give_access() has not seen these pages
  }
}

arena::MemorySource::Region MappedMemory::map(arena::Address base, std::uint64_t bytes) noexcept {
  if (!device_.limit.pools.refresh()) {
    return {0, CUDA_ERROR_OUT_OF_MEMORY, true};
  }
  const ArenaCall call(*this);
  if (!call.allowed()) {
    return {0, CUDA_ERROR_NOT_READY, false};
  }
  const RelaxedCapture relaxed(driver_);
  const std::shared_ptr<Holdings> of_context = holdings();  // keeps its addresses reserved
  if (of_context == nullptr) {
    return {0, CUDA_ERROR_CONTEXT_IS_DESTROYED, false};
  }
  bool host_has_none = false;
  const CUresult result = in_place_of_preallocated(driver_, device_, bytes, spare_bytes(), [&] {
    return map_pages(base, bytes, of_context.get(), host_has_none);
  });
  if (result == CUDA_SUCCESS) {
    return {base, 0, false};
  }
  log::debug("{} of memory could not be mapped: driver says {}", log::bytes(bytes),
             name_of(driver_, result));
  return {0, static_cast<int>(result), result == CUDA_ERROR_OUT_OF_MEMORY && !host_has_none};
}

// Maps all pages of the range, or none. Gets all of them before it maps the first. If the device
// has too little memory, the pages that this call has got become spare. Returns the driver's
// answer. If the host has no memory, sets `host_has_none` and returns CUDA_ERROR_OUT_OF_MEMORY.
CUresult MappedMemory::map_pages(arena::Address base, std::uint64_t bytes,
                                 const Holdings* of_context, bool& host_has_none) noexcept {
  Pages made;
  arena::Address mapped_end = base;
  CUresult result = CUDA_SUCCESS;
  try {
    result = make(base, bytes, made);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      keep_as_spare(made, of_context);
    }
    while (result == CUDA_SUCCESS && mapped_end < base + bytes) {
      Page& page = made.at(mapped_end);
      result = driver_.cuMemMap(mapped_end, page_bytes_, 0, page.handle, 0);
      device_.use.driver_called();
      page.is_mapped = result == CUDA_SUCCESS;
      mapped_end += page.is_mapped ? page_bytes_ : 0;
    }
    if (result == CUDA_SUCCESS) {
      result = enter(base, bytes, made, of_context);
    }
  } catch (const std::bad_alloc&) {
    host_has_none = true;
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result != CUDA_SUCCESS) {
    release_all(driver_, made, page_bytes_);
  }
  return result;
}

std::uint64_t MappedMemory::spare_bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return holdings_ == nullptr ? 0 : holdings_->spare.size() * page_bytes_;
}

// Gives the pages back to the driver; unmaps those that are mapped first.
void MappedMemory::release_all(const DriverFunctions& driver, const Pages& pages,
                               std::uint64_t page_bytes) {
  for (const auto& [address, page] : pages) {
    if (page.is_mapped) {
      driver.cuMemUnmap(address, page_bytes);
    }
    if (page.handle != 0) {
      driver.cuMemRelease(page.handle);
    }
  }
}

bool MappedMemory::unmap(arena::Address base, std::uint64_t bytes) noexcept {
  const ArenaCall call(*this);
  if (!call.allowed()) {
    return give_up(base, bytes);
  }
  const RelaxedCapture relaxed(driver_);
  const std::shared_ptr<Holdings> of_context = holdings();
  if (of_context == nullptr) {
    return false;
  }
  // The pages leave `pages` before the driver is called, so that give_access() does not report
  // access to them as refused.
  Pages going;
  {
    const std::lock_guard lock(mutex_);
    Pages& pages = of_context->pages;
    for (auto page = pages.lower_bound(base); page != pages.end() && page->first < base + bytes;) {
      going.insert(pages.extract(page++));  // needs no host memory
    }
  }
  const CUresult result = driver_.cuMemUnmap(base, bytes);
  device_.use.driver_called();
  log::debug("{} of memory unmapped: driver says {}", log::bytes(bytes), name_of(driver_, result));
  const std::lock_guard lock(mutex_);
  if (result == CUDA_SUCCESS) {
    for (auto& [address, page] : going) {
      page.is_mapped = false;
    }
    of_context->spare.merge(going);
  } else {
    of_context->pages.merge(going);
  }
  return result == CUDA_SUCCESS;
}

void MappedMemory::drop_spare() noexcept {
  const RelaxedCapture relaxed(driver_);
  std::multimap<arena::Address, Page> dropped;
  {
    const std::lock_guard lock(mutex_);
    if (holdings_ != nullptr) {
      dropped.swap(holdings_->spare);
    }
  }
  for (const auto& [address, page] : dropped) {
    driver_.cuMemRelease(page.handle);
    device_.use.driver_called();
  }
}

// After a refusal the other pages are tried all the same. A refusal for a page that has been
// unmapped meanwhile does not count, because such a page needs no access.
void MappedMemory::give_access(CUdevice peer) noexcept try {
  std::vector<std::pair<arena::Address, std::uint64_t>> runs;  // of pages side by side
  {
    const std::lock_guard lock(mutex_);
    if (holdings_ == nullptr) {
      return;
    }
    for (const auto& [address, page] : holdings_->pages) {
      if (!runs.empty() && runs.back().first + runs.back().second == address) {
        runs.back().second += page_bytes_;
      } else {
        runs.emplace_back(address, page_bytes_);
      }
    }
  }
  const RelaxedCapture relaxed(driver_);
  const PeerSet only = peer_bit(peer);
  CUresult refused = CUDA_SUCCESS;
  for (const auto& [start, bytes] : runs) {
    const CUresult result = set_access(start, bytes, Own::kNo, only);
    for (arena::Address page = start; page < start + bytes && result != CUDA_SUCCESS;
         page += page_bytes_) {
      const CUresult of_page = set_access(page, page_bytes_, Own::kNo, only);
      const std::lock_guard lock(mutex_);
      if (of_page != CUDA_SUCCESS && holdings_ != nullptr && holdings_->pages.contains(page)) {
        refused = of_page;
      }
    }
  }
  if (refused != CUDA_SUCCESS) {
    log::warn("GPU {} could not be given access to all of the arena of GPU {}: driver says {}",
              peer, device_.handle, name_of(driver_, refused));
  }
} catch (const std::bad_alloc&) {
  log::warn("GPU {} has no access to some of the arena of GPU {}: the host has no memory", peer,
            device_.handle);
}

}  // namespace cubfc
