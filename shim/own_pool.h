// The memory pool of our own that serves a device under CUBFC_ALLOCATOR=cuda_async.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "arena/epoch.h"
#include "shim/claim.h"

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

  // Memory for a context that is current, or a green one of it. The driver's answer.
  CUresult allocate(const Context& context, CUdeviceptr* address, std::size_t bytes) noexcept;
  // Enters what allocate() gave. Throws std::bad_alloc and has changed nothing then; the claim is
  // the caller's still.
  void add(Context& context, CUdeviceptr address, Claim&& claim);
  void failed() noexcept;

  struct Block {
    CUdeviceptr address;
    std::uint64_t bytes;
    std::uint64_t id;  // no other block of this process has or had it
    Context* context;
    bool live;  // not freed, and its context has not ended
  };
  // That contains the address, not yet given back to the driver.
  std::optional<Block> find(CUdeviceptr address) const noexcept;

  // A live block that starts there is the program's no longer; nothing if there is none.
  std::optional<Block> retire(CUdeviceptr address) noexcept;
  // Gives a retired block back to the pool, unless it went with its context.
  void reclaim(CUdeviceptr address, std::uint64_t id) noexcept;
  // Both for a live block: the driver's answer, or CUDA_ERROR_INVALID_VALUE.
  CUresult free(CUdeviceptr address) noexcept;

  // The context has ended. Its blocks go back with the result, retired ones too, and the pool after
  // the last context. nullptr if it never allocated. No driver call, and needs no host memory.
  std::shared_ptr<Remains> leave_behind(std::uint64_t context_id) noexcept;
  // Another device may use the memory.
  void set_peer(CUdevice peer) noexcept;

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
  struct Entry {
    Claim claim;
    std::uint64_t id;
    Context* context;
    std::uint64_t context_id;
    enum class State : std::uint8_t {
      kLive,
      kRetired,
      kOrphan,  // its context has ended, or the driver refused to take it: nobody will free it
    } state;
  };
  static constexpr std::uint64_t kIds = std::uint64_t{1} << 60;  // beyond those of arenas' blocks

  using Entries = std::map<CUdeviceptr, Entry>;
  struct Blocks {  // all of a context; its end gives them back
    OwnPool& pool;
    std::uint64_t context_id;
    bool given_up = false;
    ~Blocks();
  };
  struct User {  // a context that allocates
    std::uint64_t context_id;
    CUstream stream;  // in which it does, and nothing else is done
    std::shared_ptr<Blocks> blocks;
    std::shared_ptr<Remains> remains;
  };

  CUresult make_pool(CUmemoryPool& pool) noexcept;
  CUresult pool_to_use(CUmemoryPool& pool, CUstream stream) noexcept;
  CUresult stream_of(const Context& context, CUstream& stream) noexcept;
  void warm(CUmemoryPool pool, CUstream stream) noexcept;
  static Block block_of(const Entries::value_type& entry);
  Entries::iterator find_live(CUdeviceptr address) noexcept;
  CUresult free_now(CUdeviceptr address, const Entry& entry) noexcept;
  CUresult give_back(const Entries::node_type& entry) noexcept;
  void make_orphan(Entries::node_type entry) noexcept;
  void give_back_orphans() noexcept;
  void give_back_all_of(std::uint64_t context_id) noexcept;

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Device& device_;

  mutable std::mutex mutex_;  // guards all below
  CUmemoryPool pool_ = nullptr;
  std::vector<User> users_;
  std::vector<CUdevice> peers_;
  Entries entries_;
  std::size_t orphans_ = 0;
  std::uint64_t last_id_;
  Stats stats_;
  bool exhausted_ = false;        // the driver had no more
  std::uint64_t warm_bytes_ = 0;  // what the pool was warmed with
};

}  // namespace cubfc
