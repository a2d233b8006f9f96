#include "shim/servers/servers.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "shim/device/context.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/servers/mapped_memory.h"
#include "shim/servers/own_pool.h"
#include "shim/servers/pool_creation.h"
#include "shim/servers/region_memory.h"
#include "shim/tell/log.h"

namespace cubfc {

namespace {

// What the four servers have in common: blocks lie in the arena of their context, and arenas
// consist of regions. With By::kPool and By::kDriver the arenas stay empty.
class ArenaServer : public Server {
 public:
  ArenaServer(By how, const DriverFunctions& driver, Device& device)
      : Server(how), driver_(driver), device_(device) {}

  std::unique_ptr<RegionSource> make_source() override {
    return std::make_unique<RegionMemory>(driver_, device_);
  }

  std::optional<Extent> find_live_from(Context& context,
                                       CUdeviceptr address) const noexcept override {
    const auto block = context.arena.find_live_from(address);
    return block ? std::optional(Extent{block->address, block->address + block->block_bytes})
                 : std::nullopt;
  }
  bool retire(Context& context, CUdeviceptr address, Retired& retired) noexcept override {
    const auto block = context.arena.retire(address);
    retired.block = block.value_or(arena::RetiredBlock{});
    return block.has_value();
  }
  void reclaim(Context& context, const Retired& retired) noexcept override {
    context.arena.reclaim(retired.block);
  }
  CUresult free(Context& context, CUdeviceptr address) noexcept override {
    return context.arena.free(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }

  arena::Headroom headroom(const Context& context) const noexcept override {
    arena::Headroom room = context.arena.headroom();
    room.free += device_.preallocation.bytes();
    return room;
  }
  std::uint64_t bytes_at_hand(const Context& context) noexcept override {
    const arena::Stats stats = context.arena.stats();
    return stats.free_bytes() + stats.bytes_retired;
  }
  std::unique_ptr<Leftovers> leave_behind(Context& context,
                                          std::uint64_t /*context_id*/) noexcept override {
    return context.memory->leave_behind();
  }
  bool is_shareable(const Context& context) const noexcept override {
    return context.memory->is_shareable();
  }

 protected:
  const DriverFunctions& driver_;
  Device& device_;
};

// CUBFC_ALLOCATOR=bfc, and the server of a device that does not support the allocator asked for.
class RegionServer : public ArenaServer {
 public:
  RegionServer(const DriverFunctions& driver, Device& device)
      : ArenaServer(By::kArena, driver, device) {}

  config::Allocator allocator() const noexcept override { return config::Allocator::kBfc; }
};

// CUBFC_ALLOCATOR=vmm. Blocks are retired, reclaimed and freed as over regions; what differs is how
// an arena grows (MappedMemory, and arena/growth_by_pages.cpp).
class PageServer : public ArenaServer {
 public:
  PageServer(const DriverFunctions& driver, Device& device, std::uint64_t page_bytes)
      : ArenaServer(By::kArena, driver, device), page_bytes_(page_bytes) {}

  config::Allocator allocator() const noexcept override { return config::Allocator::kVmm; }
  std::unique_ptr<RegionSource> make_source() override { return std::make_unique<Listed>(*this); }
  // The arena grows in whole pages: a request for all bytes that cuMemGetInfo tells must succeed.
  std::uint64_t growth_in(std::uint64_t bytes) const noexcept override {
    return arena::round_down(bytes, page_bytes_);
  }
  bool needs_access() const noexcept override { return true; }
  void give_access(CUdevice peer) noexcept override {
    for (std::size_t i = 0;; ++i) {
      MappedMemory* memory = nullptr;
      {
        const std::lock_guard lock(mutex_);
        if (i >= memories_.size()) {
          return;
        }
        memory = memories_[i];
      }
      memory->give_access(peer);
    }
  }

 private:
  // A MappedMemory that is in the server's list as long as it lives. It belongs to a Context, which
  // is never destroyed. So it ends only if the host has no memory to make that Context.
  class Listed : public MappedMemory {
   public:
    explicit Listed(PageServer& server)
        : MappedMemory(server.driver_, server.device_, server.page_bytes_), server_(server) {
      const std::lock_guard lock(server_.mutex_);
      server_.memories_.push_back(this);
    }
    ~Listed() override {
      const std::lock_guard lock(server_.mutex_);
      std::erase(server_.memories_, this);
    }
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;

   private:
    PageServer& server_;
  };

  const std::uint64_t page_bytes_;
  std::mutex mutex_;  // guards the list
  std::vector<MappedMemory*> memories_;
};

// CUBFC_ALLOCATOR=cuda_async.
class PoolServer : public ArenaServer {
 public:
  PoolServer(const DriverFunctions& driver, const config::Policy& policy, Device& device)
      : ArenaServer(By::kPool, driver, device), pool_(driver, policy, device) {}

  config::Allocator allocator() const noexcept override { return config::Allocator::kCudaAsync; }
  const char* description() const noexcept override { return "cuda_async, a pool of the driver's"; }

  CUresult prepare(Context& context) noexcept override { return pool_.prepare(context); }
  CUresult obtain(Context& context, CUdeviceptr* address, std::size_t bytes) noexcept override {
    return pool_.allocate(context, address, bytes);
  }
  void undo(CUdeviceptr address) noexcept override { pool_.undo(address); }
  void enter(Context& context, CUdeviceptr address, Claim&& claim) override {
    pool_.add(context, address, std::move(claim));
  }
  CUmemoryPool pool() const noexcept override { return pool_.handle(); }
  std::uint64_t idle_pool_bytes() noexcept override { return pool_.idle_bytes(); }

  std::optional<Block> find(CUdeviceptr address) const noexcept override {
    return pool_.find(address);
  }
  std::optional<Extent> find_live_from(Context& /*context*/,
                                       CUdeviceptr address) const noexcept override {
    const auto block = pool_.find_live_from(address);
    return block ? std::optional(Extent{block->address, block->address + block->bytes})
                 : std::nullopt;
  }
  bool retire(Context& /*context*/, CUdeviceptr address, Retired& retired) noexcept override {
    const auto block = pool_.retire(address);
    if (block) {
      retired.address = address;
      retired.id = block->id;
      retired.block.bytes = block->bytes;
    }
    return block.has_value();
  }
  void reclaim(Context& /*context*/, const Retired& retired) noexcept override {
    pool_.reclaim(retired.address, retired.id);
  }
  CUresult free(Context& /*context*/, CUdeviceptr address) noexcept override {
    return pool_.free(address);
  }

  arena::Headroom headroom(const Context& /*context*/) const noexcept override {
    return pool_.headroom();
  }
  std::uint64_t bytes_at_hand(const Context& /*context*/) noexcept override {
    return pool_.idle_bytes() + pool_.stats().bytes_retired;
  }
  bool frees_blocks_before_end() const noexcept override { return true; }
  void free_all_of(const Context& context) noexcept override { pool_.free_all_of(context); }
  std::unique_ptr<Leftovers> leave_behind(Context& /*context*/,
                                          std::uint64_t context_id) noexcept override {
    return pool_.leave_behind(context_id);
  }

  bool is_shareable(const Context& /*context*/) const noexcept override { return false; }
  bool needs_access() const noexcept override { return true; }
  void give_access(CUdevice peer) noexcept override { pool_.give_access(peer); }
  std::uint64_t trim(bool preallocated) noexcept override {
    return pool_.trim(preallocated ? 0 : pool_.warm_bytes());
  }
  std::uint64_t operations() const noexcept override { return pool_.stats().operations; }

 private:
  OwnPool pool_;
};

// CUBFC_ALLOCATOR=platform.
class DriverServer : public ArenaServer {
 public:
  DriverServer(const DriverFunctions& driver, Device& device)
      : ArenaServer(By::kDriver, driver, device) {}

  config::Allocator allocator() const noexcept override { return config::Allocator::kPlatform; }
  const char* description() const noexcept override {
    return "platform, every allocation goes to the driver";
  }
};

// The driver's answer in brackets, for a message. Empty for CUDA_ERROR_NOT_SUPPORTED.
std::string in_brackets(const DriverFunctions& driver, CUresult refused) {
  return refused == CUDA_ERROR_NOT_SUPPORTED ? ""
                                             : std::string(" (") + name_of(driver, refused) + ")";
}

// Makes a pool as OwnPool needs it, and destroys it. Returns the driver's answer.
CUresult try_pool(const DriverFunctions& driver, const Device& device) {
  const RelaxedCapture relaxed(driver);
  CUmemoryPool pool = nullptr;
  const CUresult result = create_pool(driver, device, pool);
  if (result == CUDA_SUCCESS) {
    driver.cuMemPoolDestroy(pool);
  }
  return result;
}

}  // namespace

std::unique_ptr<Server> choose_server(const DriverFunctions& driver, const config::Policy& policy,
                                      Device& device) {
  switch (policy.allocator.value) {
    case config::Allocator::kPlatform:
      return std::make_unique<DriverServer>(driver, device);
    case config::Allocator::kVmm: {
      const std::uint64_t page_bytes = MappedMemory::page_bytes_for(driver, device);
      const CUresult refused = page_bytes == 0
                                   ? CUDA_ERROR_NOT_SUPPORTED
                                   : MappedMemory::try_page(driver, device.handle, page_bytes);
      if (refused == CUDA_SUCCESS) {
        return std::make_unique<PageServer>(driver, device, page_bytes);
      }
      if (!device.managed) {
        log::warn("GPU {} ({}) cannot map memory{}; it gets CUBFC_ALLOCATOR=bfc instead of vmm",
                  device.handle, device.name, in_brackets(driver, refused));
      }
      break;
    }
    case config::Allocator::kCudaAsync: {
      const CUresult refused = OwnPool::is_possible(driver, device.handle)
                                   ? try_pool(driver, device)
                                   : CUDA_ERROR_NOT_SUPPORTED;
      if (!device.managed && refused == CUDA_SUCCESS) {
        return std::make_unique<PoolServer>(driver, policy, device);
      }
      if (!device.managed) {
        log::warn(
            "GPU {} ({}) has no memory pools{}; it gets CUBFC_ALLOCATOR=bfc instead of cuda_async",
            device.handle, device.name, in_brackets(driver, refused));
      }
      break;
    }
    case config::Allocator::kBfc:
      break;
  }
  return std::make_unique<RegionServer>(driver, device);
}

}  // namespace cubfc
