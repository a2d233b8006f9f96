// The memory pools of a device, and its graphs' memory: what the driver has reserved for them,
// which is more than what is allocated from them, and what that takes of the limit.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "arena/budget.h"
#include "shim/driver/driver.h"

namespace cubfc {

// A pool counts with the larger of two figures: what the driver has reserved for it, asked by
// refresh(), and what is claimed from it. Bytes are claimed before the driver's call, so that two
// threads do not both take the last ones. What is freed stays with the pool, and counts.
// Thread-safe; its lock is never held across a driver call.
class Pools {
 public:
  enum class Counts : std::uint8_t {
    kNothing,  // there is no limit
    kOurs,     // our own pool
    kAll,      // and the program's, and graphs
  };
  Pools(const DriverFunctions& driver, CUdevice device, arena::Budget& budget, Counts counts)
      : driver_(driver), device_(device), budget_(budget), counts_(counts) {}

  enum class Owner : std::uint8_t { kProgram, kOurs };
  // A pool whose memory is this device's. Its default pool need not be added. Throws
  // std::bad_alloc.
  void add(CUmemoryPool pool, Owner owner);
  bool has(CUmemoryPool pool) noexcept;
  // Around the driver's call that destroys it: as soon as that is done, another may have its
  // handle.
  void will_be_destroyed(CUmemoryPool pool) noexcept;
  void not_destroyed(CUmemoryPool pool) noexcept;

  bool counts() const noexcept { return counts_ != Counts::kNothing; }
  // Claims bytes before they are allocated from the pool. False, and nothing claimed, when the
  // limit has too few left. `id` is for unclaim(): 0 without a limit. Asks the driver, if there is
  // a limit.
  bool claim(CUmemoryPool pool, std::uint64_t bytes, std::uint64_t& id) noexcept;
  void unclaim(std::uint64_t id, std::uint64_t bytes) noexcept;
  // Asks the driver what is reserved. False when more is taken now than the limit allows.
  bool refresh() noexcept;
  // The same for a launch that needs so many bytes for graphs in all, of which the driver may have
  // reserved some, or all, already.
  bool claim_for_graphs(std::uint64_t demand) noexcept;
  // The launch is over: what is reserved counts. Asks the driver.
  void unclaim_for_graphs() noexcept;

  // Bytes taken of the limit beyond all claims, as last known.
  std::uint64_t unclaimed() const noexcept;

  // Bytes that a pool has reserved now. Asks the driver.
  std::uint64_t reserved_by(CUmemoryPool pool) noexcept;
  // Gives back to the device what nothing is allocated in, of every pool known here, the program's
  // included, and of graphs if they count. True if there was anything.
  bool trim() noexcept;

 private:
  struct Pool {
    std::uint64_t id;
    CUmemoryPool handle;  // nullptr: of claims on pools that are not known
    Owner owner;
    bool destroyed = false;
    std::uint64_t reserved = 0;  // as last known
    std::uint64_t asked = 0;     // when: a number of turn_
    std::uint64_t claimed = 0;
  };

  std::uint64_t ask(CUmemoryPool pool, CUmemPool_attribute attribute) noexcept;
  void know_default_pool() noexcept;
  Pool* find(CUmemoryPool pool) noexcept;
  bool is_counted(const Pool& pool) const {
    return counts_ == Counts::kAll || (counts_ == Counts::kOurs && pool.owner == Owner::kOurs);
  }
  std::uint64_t kept_by_graphs() noexcept;  // what the driver has reserved for them
  std::uint64_t needed() const noexcept;
  bool take_what_is_needed() noexcept;
  void give_what_is_not_needed() noexcept;
  void forget_the_empty() noexcept;
  template <typename Do>
  void for_each(Do what) noexcept;

  static constexpr std::uint64_t kUnknown = 1;  // the id of the entry for pools that are not known

  const DriverFunctions& driver_;
  const CUdevice device_;
  arena::Budget& budget_;
  const Counts counts_;
  std::atomic<std::uint64_t> turn_{0};

  mutable std::mutex mutex_;                                       // guards all below
  std::vector<Pool> pools_{{kUnknown, nullptr, Owner::kProgram}};  // by id
  std::uint64_t last_id_ = kUnknown;
  bool knows_default_ = false;
  std::uint64_t graphs_ = 0;              // bytes reserved, as last known
  std::uint64_t claimed_for_graphs_ = 0;  // the most that a launch under way demands
  std::uint64_t launches_ = 0;            // under way
  std::uint64_t graphs_asked_ = 0;
  std::uint64_t taken_ = 0;  // of the limit
};

}  // namespace cubfc
