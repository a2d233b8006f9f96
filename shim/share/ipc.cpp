#include "shim/share/ipc.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "shim/device/blocks.h"
#include "shim/device/contexts.h"
#include "shim/patience.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

constexpr std::array<char, 8> kHandleMagic{'c', 'u', 'b', 'f', 'c', ' ', '1', '\0'};

// What a CUipcMemHandle of ours holds; the rest of it is 0.
struct Content {
  std::array<char, 8> magic;
  Ticket ticket;
};
static_assert(sizeof(Content) <= sizeof(CUipcMemHandle));
static_assert(sizeof(CUipcMemHandle) == sizeof(SharedBlock::region));

CUipcMemHandle handle_with(const Ticket& ticket) {
  const Content content{kHandleMagic, ticket};
  CUipcMemHandle handle{};
  std::memcpy(&handle, &content, sizeof(content));
  return handle;
}

std::optional<Ticket> ticket_in(const CUipcMemHandle& handle) {
  Content content{};
  std::memcpy(&content, &handle, sizeof(content));
  return content.magic == kHandleMagic ? std::optional(content.ticket) : std::nullopt;
}

}  // namespace

Ipc::Ipc(const DriverFunctions& driver, const config::Policy& policy, Contexts& contexts)
    : driver_(driver), policy_(policy), contexts_(contexts) {
  contexts.add_listener(*this);
}

CUresult Ipc::handle_of(CUipcMemHandle* handle, CUdeviceptr address) {
  const FoundBlock found = find_block(contexts_, address);
  if (found.context == nullptr || handle == nullptr) {
    return driver_.cuIpcGetMemHandle(handle, address);
  }
  if (!found.live) {
    return driver_.cuIpcGetMemHandle(handle, kNowhere);
  }
  if (policy_.ipc.value == config::Ipc::kDriver) {
    log::warn(
        "cuIpcGetMemHandle: with CUBFC_IPC=driver only blocks of {1} and more have a handle, and "
        "this one has {0}; CUBFC_IPC=cubfc gives each block one",
        log::bytes(found.info.bytes), log::bytes(kSmallestDriverShared));
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const std::uint64_t context_id = found.context->id.load(std::memory_order_acquire);
  {
    const std::lock_guard lock(mutex_);
    const auto known = exports_.find(found.info.address);
    if (known != exports_.end() && known->second.block_id == found.info.id &&
        known->second.context_id == context_id) {
      *handle = handle_with(known->second.ticket);
      return CUDA_SUCCESS;
    }
  }
  if (!found.context->is_shareable()) {
    log::warn(
        "cuIpcGetMemHandle: mapped memory, managed memory and a pool's memory cannot be shared "
        "with other processes; set CUBFC_ALLOCATOR=bfc, and not CUBFC_UNIFIED_MEMORY");
    return CUDA_ERROR_INVALID_VALUE;  // as the driver says of all three
  }
  CUdeviceptr region = 0;
  CUipcMemHandle of_region{};
  if (const CUresult result = driver_.cuMemGetAddressRange_v2(&region, nullptr, address)) {
    return result;
  }
  if (const CUresult result = driver_.cuIpcGetMemHandle(&of_region, region)) {
    return result;
  }
  SharedBlock block{found.info.address - region, found.info.bytes, {}};
  std::memcpy(block.region.data(), &of_region, sizeof(of_region));
  const std::lock_guard lock(mutex_);
  const auto [entry, fresh] = exports_.try_emplace(found.info.address);
  if (!fresh && entry->second.block_id == found.info.id && entry->second.context_id == context_id) {
    *handle = handle_with(entry->second.ticket);  // another thread was quicker
    return CUDA_SUCCESS;
  }
  const Ticket ticket = shared_.publish(block);
  if (!fresh) {
    shared_.withdraw(entry->second.ticket);  // of an earlier block at this address
  }
  if (ticket.number == 0) {
    exports_.erase(entry);
    return errno == ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_OPERATING_SYSTEM;
  }
  entry->second = {found.info.id, context_id, ticket};
  any_exports_.store(true, std::memory_order_release);
  *handle = handle_with(ticket);
  log::debug("cuIpcGetMemHandle {:#x}: {} bytes, for processes under cubfc", found.info.address,
             found.info.bytes);
  return CUDA_SUCCESS;
}

void Ipc::withdraw(CUdeviceptr address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = exports_.find(address);
  if (found != exports_.end()) {
    shared_.withdraw(found->second.ticket);
    exports_.erase(found);
    any_exports_.store(!exports_.empty(), std::memory_order_release);
  }
}

CUresult Ipc::open(CUdeviceptr* address, const CUipcMemHandle& handle, unsigned flags,
                   Open driver) {
  const std::optional<Ticket> ticket = ticket_in(handle);
  if (!ticket || address == nullptr) {
    return driver(address, handle, flags);
  }
  const std::optional<SharedBlock> block = find_shared(*ticket);
  if (!block) {
    log::warn(
        "cuIpcOpenMemHandle: process {} does not share this block, or no longer, or the two "
        "processes have different folders of files (XDG_RUNTIME_DIR)",
        ticket->owner);
    return driver(address, handle, flags);  // which has an error for an unknown handle
  }
  CUipcMemHandle of_region{};
  std::memcpy(&of_region, block->region.data(), sizeof(of_region));
  const Context* const context = contexts_.current();
  const std::uint64_t context_id =
      context == nullptr ? 0 : context->id.load(std::memory_order_relaxed);
  CUdeviceptr region = 0;
  if (const CUresult result = open_region(&region, of_region, flags, driver, context_id)) {
    return result;
  }
  CUdeviceptr start = 0;
  std::size_t bytes = 0;
  const bool fits = driver_.cuMemGetAddressRange_v2(&start, &bytes, region) == CUDA_SUCCESS &&
                    start == region && block->offset <= bytes &&
                    block->bytes <= bytes - block->offset;
  if (!fits || context == nullptr) {
    close_region(region);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  try {
    const std::lock_guard lock(mutex_);
    Opened& opened = imports_[region + block->offset];
    opened = {region,
              bytes,
              block->bytes,
              context_id,
              opened.times == 0 ? ++last_import_ : opened.id,
              opened.times + 1};
  } catch (const std::bad_alloc&) {
    close_region(region);
    throw;
  }
  any_imports_.store(true, std::memory_order_release);
  *address = region + block->offset;
  return CUDA_SUCCESS;
}

// The region of this handle that is open already in this context with these flags. Precondition:
// the lock is held.
Ipc::Regions::iterator Ipc::find_region(const CUipcMemHandle& handle, unsigned flags,
                                        std::uint64_t context_id) {
  return std::find_if(regions_.begin(), regions_.end(), [&](const auto& entry) {
    return entry.second.context_id == context_id && entry.second.flags == flags &&
           std::memcmp(&entry.second.handle, &handle, sizeof(handle)) == 0;
  });
}

// If the driver refuses because another thread is closing the region, asks once more.
CUresult Ipc::open_region(CUdeviceptr* region, const CUipcMemHandle& handle, unsigned flags,
                          Open driver, std::uint64_t context_id) {
  const CUresult result = try_to_open_region(region, handle, flags, driver, context_id);
  return result == CUDA_ERROR_ALREADY_MAPPED
             ? try_to_open_region(region, handle, flags, driver, context_id)
             : result;
}

// If the driver refuses because the region is open already, uses the open region (find_region());
// but not after an error that stays. After CUDA_ERROR_ALREADY_MAPPED first waits for other threads
// in such driver calls: one may just have opened the region, or be about to close it.
CUresult Ipc::try_to_open_region(CUdeviceptr* region, const CUipcMemHandle& handle, unsigned flags,
                                 Open driver, std::uint64_t context_id) {
  {
    const std::lock_guard lock(mutex_);
    ++in_driver_;
  }
  const CUresult result = driver(region, handle, flags);
  std::unique_lock lock(mutex_);
  --in_driver_;
  driver_is_back_.notify_all();
  if (result == CUDA_SUCCESS) {
    try {
      Region& known = regions_[*region];
      if (std::memcmp(&known.handle, &handle, sizeof(handle)) != 0) {
        known = {handle, flags, context_id, 0, 0};
      }
      ++known.given;
      ++known.used;
    } catch (const std::bad_alloc&) {
      lock.unlock();
      driver_.cuIpcCloseMemHandle(*region);
      throw;
    }
    return result;
  }
  if (stays(result)) {
    return result;
  }
  Regions::iterator open = find_region(handle, flags, context_id);
  if (result == CUDA_ERROR_ALREADY_MAPPED) {
    driver_is_back_.wait_for(lock, patience::kForDriverCall, [&] {
      open = find_region(handle, flags, context_id);
      return open != regions_.end() || in_driver_ == 0;
    });
  }
  if (open == regions_.end()) {
    return result;
  }
  ++open->second.used;
  *region = open->first;
  return CUDA_SUCCESS;
}

// Ends one opening of a block. Calls the driver if it has opened the region more often than there
// are openings left.
CUresult Ipc::close_region(CUdeviceptr region) {
  bool is_due = true;
  Region before{};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = regions_.find(region); found != regions_.end()) {
      Region& known = found->second;
      before = known;
      --known.used;
      is_due = known.given > known.used;
      known.given -= is_due ? 1 : 0;
      if (known.used == 0) {
        regions_.erase(found);
      }
    }
    in_driver_ += is_due ? 1 : 0;
  }
  if (!is_due) {
    return CUDA_SUCCESS;
  }
  const CUresult result = driver_.cuIpcCloseMemHandle(region);
  const std::lock_guard lock(mutex_);
  --in_driver_;
  driver_is_back_.notify_all();
  if (result != CUDA_SUCCESS && before.used > 0) {  // the region is still open
    Region& known =
        regions_.try_emplace(region, Region{before.handle, before.flags, before.context_id, 0, 0})
            .first->second;
    ++known.given;
    ++known.used;
  }
  return result;
}

CUresult Ipc::close(CUdeviceptr address) {
  CUdeviceptr region = 0;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = imports_.find(address); found != imports_.end()) {
      region = found->second.region;
    }
  }
  if (region == 0) {
    return driver_.cuIpcCloseMemHandle(address);
  }
  const CUresult result = close_region(region);
  if (result == CUDA_SUCCESS) {
    const std::lock_guard lock(mutex_);
    const auto found = imports_.find(address);
    if (found != imports_.end() && --found->second.times == 0) {
      imports_.erase(found);
      any_imports_.store(!imports_.empty(), std::memory_order_release);
    }
  }
  return result;
}

std::optional<Ipc::Import> Ipc::find_import(CUdeviceptr address) const {
  if (!any_imports_.load(std::memory_order_acquire)) {
    return std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  const auto after = imports_.upper_bound(address);
  if (after != imports_.begin()) {
    const auto& [start, opened] = *std::prev(after);
    if (address - start < opened.bytes) {
      return Import{start, opened.bytes, opened.id};
    }
  }
  for (const auto& [start, opened] : imports_) {
    if (address - opened.region < opened.region_bytes) {
      return Import{0, 0, 0};
    }
  }
  return std::nullopt;
}

// Forgets what the context shared and what was opened in it: both went with the context.
void Ipc::context_ended(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(imports_, [&](const auto& entry) { return entry.second.context_id == id; });
  std::erase_if(regions_, [&](const auto& entry) { return entry.second.context_id == id; });
  for (auto entry = exports_.begin(); entry != exports_.end();) {
    if (entry->second.context_id == id) {
      shared_.withdraw(entry->second.ticket);
      entry = exports_.erase(entry);
    } else {
      ++entry;
    }
  }
  any_imports_.store(!imports_.empty(), std::memory_order_release);
  any_exports_.store(!exports_.empty(), std::memory_order_release);
}

}  // namespace cubfc
