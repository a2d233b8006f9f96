// The memory pool of our own that serves a device under CUBFC_ALLOCATOR=cuda_async.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "arena/epoch.h"
#include "shim/device/server.h"
#include "shim/limit/claim.h"

namespace cubfc {

// What is allocated here is memory as cuMemAlloc gives it: any stream may use it at once, and it
// goes with its context. What is freed here must be in no use any more. Thread-safe; its lock is
// never held across a driver call.
class OwnPool {
 public:
  // `device` must outlive it.
  OwnPool(const DriverFunctions& driver, const config::Policy& policy, Device& device)
      : driver_(driver), policy_(policy), device_(device), last_id_(kIds) {}
  static bool is_possible(const DriverFunctions& driver, CUdevice device);

  // Makes what is missing for the context, which is current, or a green one of it, to allocate.
  CUresult prepare(const Context& context) noexcept;
  // Memory for it. The driver's answer.
  CUresult allocate(const Context& context, CUdeviceptr* address, std::size_t bytes) noexcept;
  // Gives it back at once.
  void undo(CUdeviceptr address) noexcept;
  // Enters what allocate() gave. Throws std::bad_alloc: the claim is gone then, the memory is the
  // caller's still.
  void add(Context& context, CUdeviceptr address, Claim&& claim);
  void failed() noexcept;

  using Block = Server::Block;
  // That contains the address, not yet given back to the driver.
  std::optional<Block> find(CUdeviceptr address) const noexcept;

  // The one that is live and contains it, else the next one.
  std::optional<Block> find_live_from(CUdeviceptr address) const noexcept;

  // A live block that starts there is the program's no longer; nothing if there is none.
  std::optional<Block> retire(CUdeviceptr address) noexcept;
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

  arena::Room room() const noexcept;
  // nullptr before the first allocation.
  CUmemoryPool handle() const noexcept;
  // Of what the pool holds, what nothing is allocated in. Asks the driver.
  std::uint64_t idle_bytes() noexcept;

  struct Stats {
    std::uint64_t num_allocs = 0;
    std::uint64_t num_failures = 0;
    std::uint64_t bytes_in_use = 0;  // retired ones included
    std::uint64_t peak_bytes_in_use = 0;
    std::uint64_t bytes_retired = 0;
    std::uint64_t operations = 0;  // another number after each allocation and each free
  };
  Stats stats() const noexcept;

 private:
  static constexpr std::uint64_t kIds = std::uint64_t{1} << 60;  // beyond those of arenas' blocks

  enum class State : std::uint8_t { kLive, kRetired, kGoing };  // the driver is taking it back
  struct Entry {
    Claim claim;
    std::uint64_t id;
    Context* context;
    std::uint64_t context_id;
    State state;
  };
  using Entries = std::map<CUdeviceptr, Entry>;  // none overlaps another
  struct Blocks {                                // all of a context; its end gives them back
    Blocks(OwnPool& its_pool, std::uint64_t id) : pool(its_pool), context_id(id) {}
    ~Blocks() { pool.give_up(context_id); }
    Blocks(const Blocks&) = delete;
    Blocks& operator=(const Blocks&) = delete;
    OwnPool& pool;
    const std::uint64_t context_id;
  };
  struct User {  // a context that allocates
    std::uint64_t context_id = 0;
    CUstream stream = nullptr;                       // in which it does, and nothing else is done
    std::unique_ptr<Leftovers> leftovers = nullptr;  // its Blocks
  };

  CUresult make_pool(CUmemoryPool& pool) noexcept;
  CUresult ready_pool(CUstream stream) noexcept;
  CUresult stream_of(const Context& context, CUstream& stream) noexcept;
  User* user(std::uint64_t context_id) noexcept;
  void warm(CUmemoryPool pool, CUstream stream) noexcept;
  static Block block_of(const Entries::value_type& entry);
  static Entries::const_iterator first_beyond(const Entries& entries, CUdeviceptr address) noexcept;
  Entries::iterator find_live(CUdeviceptr address) noexcept;
  CUresult take_back(CUdeviceptr address, std::uint64_t id, State before) noexcept;
  void give_up(std::uint64_t context_id) noexcept;
  void give_back_orphans() noexcept;

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Device& device_;

  mutable std::mutex mutex_;  // guards all below
  CUmemoryPool pool_ = nullptr;
  std::vector<User> users_;
  Entries entries_;
  Entries orphans_;  // nobody will free them: their context has ended
  std::uint64_t last_id_;
  Stats stats_;
  bool exhausted_ = false;        // the driver had no more
  std::uint64_t warm_bytes_ = 0;  // what the pool was warmed with
};

}  // namespace cubfc
