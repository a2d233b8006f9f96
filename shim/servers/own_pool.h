// The memory pool of the driver's that cubfc makes for a device under CUBFC_ALLOCATOR=cuda_async,
// and the driver calls that serve requests from it. pool_blocks.h keeps the list of its blocks.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "arena/epoch.h"
#include "shim/device/server.h"
#include "shim/limit/claim.h"
#include "shim/servers/pool_blocks.h"

namespace cubfc {

// One pool for all contexts of the device: made for the first request, destroyed when the last
// context that used it has ended. Each context allocates in a stream of its own in which nothing
// else is done, so that no request waits for the program's work.
//
// For callers its memory is like that of cuMemAlloc: any stream may use it at once, and it is freed
// with its context. Before a caller frees memory here, all work that uses it must be done.
//
// Thread-safe; no lock is held across a driver call. PoolBlocks has a lock of its own. A thread
// that needs both locks takes this one first.
class OwnPool {
 public:
  // `device` must outlive it.
  OwnPool(const DriverFunctions& driver, const config::Policy& policy, Device& device)
      : driver_(driver), policy_(policy), device_(device) {}
  // Whether driver and device have memory pools, and all functions that are needed.
  static bool is_possible(const DriverFunctions& driver, CUdevice device);

  // For each request: prepare(), allocate(), then add(), or undo() if the memory cannot be kept.
  // prepare(): makes the context's stream, and the pool if there is none. Precondition: the
  // context, or a green one that uses its memory, is current. Returns the driver's answer.
  CUresult prepare(const Context& context) noexcept;
  // Takes memory from the pool. Returns the driver's answer.
  CUresult allocate(const Context& context, CUdeviceptr* address, std::size_t bytes) noexcept;
  // Returns memory of allocate() to the pool at once.
  void undo(CUdeviceptr address) noexcept;
  // Makes memory of allocate() a live block. Throws std::bad_alloc: the claim is gone then, and the
  // memory is still the caller's.
  void add(Context& context, CUdeviceptr address, Claim&& claim) {
    blocks_.add(context, address, std::move(claim));
  }

  using Block = PoolBlocks::Block;
  // The block that contains the address and was not given back to the driver yet.
  std::optional<Block> find(CUdeviceptr address) const noexcept { return blocks_.find(address); }
  // The live block that contains the address, else the next live one above it.
  std::optional<Block> find_live_from(CUdeviceptr address) const noexcept {
    return blocks_.find_live_from(address);
  }

  // Called when the program has freed the live block that starts there, and work may still use it.
  // Nothing if there is no such block.
  std::optional<Block> retire(CUdeviceptr address) noexcept { return blocks_.retire(address); }
  // Gives a retired block back to the pool, unless it went with its context.
  void reclaim(CUdeviceptr address, std::uint64_t id) noexcept;
  // Gives the live block that starts there, which no work uses, back to the pool. Returns the
  // driver's answer, or CUDA_ERROR_INVALID_VALUE if there is no such block.
  CUresult free(CUdeviceptr address) noexcept;

  // Called before the context ends, when its work is done: gives all its blocks back to the pool.
  // Precondition: the context is current.
  void free_all_of(const Context& context) noexcept;
  // Called when the context has ended. The destructor of the result makes orphans of the context's
  // remaining blocks. Orphans go back to the driver as soon as the driver takes them. After the
  // last context the destructor also destroys the pool. nullptr if the context never allocated.
  // Makes no driver call, and needs no host memory.
  std::unique_ptr<Leftovers> leave_behind(std::uint64_t context_id) noexcept;
  // Called when `peer` has been added to the device's peers: gives it access to the pool.
  void give_access(CUdevice peer) noexcept;

  // Returns to the device the memory of the pool in which no block lies, but leaves the pool at
  // least `keep_bytes` in all. Returns the number of bytes that went back.
  std::uint64_t trim(std::uint64_t keep_bytes) noexcept;
  // The bytes that the pool was warmed with.
  std::uint64_t warm_bytes() const noexcept;

  // See Server::headroom. `free` is the peak of bytes in use less the bytes in use now, because the
  // pool keeps what is freed.
  arena::Headroom headroom() const noexcept;
  // The pool; nullptr before the first allocation.
  CUmemoryPool handle() const noexcept;
  // The bytes that the pool holds and that no block is in. Asks the driver how much it holds.
  std::uint64_t idle_bytes() noexcept;

  using Stats = PoolBlocks::Stats;
  Stats stats() const noexcept { return blocks_.stats(); }

 private:
  struct ContextBlocks {  // in a User's leftovers; its destructor gives the blocks back
    ContextBlocks(OwnPool& its_pool, std::uint64_t id) : pool(its_pool), context_id(id) {}
    ~ContextBlocks() { pool.give_up(context_id); }
    ContextBlocks(const ContextBlocks&) = delete;
    ContextBlocks& operator=(const ContextBlocks&) = delete;
    OwnPool& pool;
    const std::uint64_t context_id;
  };
  struct User {  // a context that allocates
    std::uint64_t context_id = 0;
    CUstream stream = nullptr;  // in which it allocates; nothing else is done there
    std::unique_ptr<Leftovers> leftovers = nullptr;  // its ContextBlocks, for leave_behind()
  };

  CUresult ready_pool(CUstream stream) noexcept;
  CUresult stream_of(const Context& context, CUstream& stream) noexcept;
  User* user(std::uint64_t context_id) noexcept;
  struct GivenBack {
    CUresult result;  // of cuMemFree
    bool is_gone;     // the driver has the memory, or never had it
  };
  GivenBack give_back(CUdeviceptr address, std::uint64_t context_id) noexcept;
  CUresult take_back(const PoolBlocks::Going& going) noexcept;
  void give_up(std::uint64_t context_id) noexcept;
  void destroy(CUmemoryPool pool) noexcept;
  void give_back_orphans() noexcept;

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Device& device_;
  PoolBlocks blocks_;

  mutable std::mutex mutex_;  // guards all below
  CUmemoryPool pool_ = nullptr;
  std::vector<User> users_;
  bool exhausted_ = false;        // the driver had no more, and no block has gone back since
  std::uint64_t warm_bytes_ = 0;  // what the pool was warmed with
};

}  // namespace cubfc
