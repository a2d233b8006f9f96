// The memory pool of the driver's that cubfc makes for a device under CUBFC_ALLOCATOR=cuda_async,
// and the driver calls by which it serves. Which blocks it has given, pool_blocks.h knows.
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
// To its callers its memory is as cuMemAlloc gives it: any stream may use it at once, and it goes
// with its context. What is freed here must be in no use any more.
//
// Thread-safe; no lock is held across a driver call. PoolBlocks has a lock of its own, which is
// taken after this one where what both guard must agree.
class OwnPool {
 public:
  // `device` must outlive it.
  OwnPool(const DriverFunctions& driver, const config::Policy& policy, Device& device)
      : driver_(driver), policy_(policy), device_(device) {}
  // Whether driver and device have memory pools, and all functions that are needed.
  static bool is_possible(const DriverFunctions& driver, CUdevice device);

  // A request: prepare(), allocate(), then add(), or undo() if what was given cannot be kept.
  // First makes the context's stream, and the pool if there is none. The context, or a green one
  // made from it, is current. The driver's answer.
  CUresult prepare(const Context& context) noexcept;
  // Memory for it. The driver's answer.
  CUresult allocate(const Context& context, CUdeviceptr* address, std::size_t bytes) noexcept;
  // Gives it back at once.
  void undo(CUdeviceptr address) noexcept;
  // Enters what allocate() gave. Throws std::bad_alloc: the claim is gone then, the memory is the
  // caller's still.
  void add(Context& context, CUdeviceptr address, Claim&& claim) {
    blocks_.add(context, address, std::move(claim));
  }
  // For the statistics: the request could not be served.

  using Block = PoolBlocks::Block;
  // That contains the address, not yet given back to the driver.
  std::optional<Block> find(CUdeviceptr address) const noexcept { return blocks_.find(address); }
  // The one that is live and contains it, else the next one.
  std::optional<Block> find_live_from(CUdeviceptr address) const noexcept {
    return blocks_.find_live_from(address);
  }

  // A live block that starts there is the program's no longer; nothing if there is none.
  std::optional<Block> retire(CUdeviceptr address) noexcept { return blocks_.retire(address); }
  // Gives a retired block back to the pool, unless it went with its context.
  void reclaim(CUdeviceptr address, std::uint64_t id) noexcept;
  // Both for a live block: the driver's answer, or CUDA_ERROR_INVALID_VALUE.
  CUresult free(CUdeviceptr address) noexcept;

  // The context's work is done, and it will end: gives back all its blocks, in the context.
  void free_all_of(const Context& context) noexcept;
  // The context has ended. What blocks it has left go back once the result is gone and a context is
  // there for it; the pool goes after the last context. nullptr if it never allocated. No driver
  // call, and needs no host memory.
  std::unique_ptr<Leftovers> leave_behind(std::uint64_t context_id) noexcept;
  // A device has been added to its device's peers.
  void give_access(CUdevice peer) noexcept;

  // Gives back what nothing is allocated in, but for so much of what it holds. Returns the bytes.
  std::uint64_t trim(std::uint64_t keep_bytes) noexcept;
  // What it was warmed with.
  std::uint64_t warm_bytes() const noexcept;

  // See Server::headroom: `free` is its peak less what is in use, as the pool keeps what is freed.
  arena::Headroom headroom() const noexcept;
  // nullptr before the first allocation.
  CUmemoryPool handle() const noexcept;
  // Of what the pool holds, what no block is in. Asks the driver how much it holds.
  std::uint64_t idle_bytes() noexcept;

  using Stats = PoolBlocks::Stats;
  Stats stats() const noexcept { return blocks_.stats(); }

 private:
  struct ContextBlocks {  // in a User's leftovers; when it ends, the context's blocks are given
                          // back
    ContextBlocks(OwnPool& its_pool, std::uint64_t id) : pool(its_pool), context_id(id) {}
    ~ContextBlocks() { pool.give_up(context_id); }
    ContextBlocks(const ContextBlocks&) = delete;
    ContextBlocks& operator=(const ContextBlocks&) = delete;
    OwnPool& pool;
    const std::uint64_t context_id;
  };
  struct User {  // a context that allocates
    std::uint64_t context_id = 0;
    CUstream stream = nullptr;                       // in which it does, and nothing else is done
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
