// The memory pools of a device, and the memory of its graphs: how much the driver has reserved for
// them, which may be more than is allocated in them, and how much of the limit that takes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "arena/budget.h"
#include "shim/driver/driver.h"

namespace cubfc {

// A pool counts with the larger of two figures: the bytes that the driver has reserved for it, as
// refresh() last learnt, and the bytes that are claimed from it. Bytes are claimed before the
// driver's call, so that two threads do not both take the last ones. Freed memory that the pool
// keeps reserved goes on counting. Thread-safe; its lock is never held across a driver call.
class Pools {
 public:
  enum class Counts : std::uint8_t {
    kNothing,  // there is no limit
    kOurs,     // only our own pool counts
    kAll,      // the program's pools and graphs count, too
  };
  Pools(const DriverFunctions& driver, CUdevice device, arena::Budget& budget, Counts counts)
      : driver_(driver), device_(device), budget_(budget), counts_(counts) {}

  enum class Owner : std::uint8_t { kProgram, kOurs };
  // Called with each pool of this device that is made. The device's default pool need not be added.
  // Throws std::bad_alloc.
  void add(CUmemoryPool pool, Owner owner);
  bool has(CUmemoryPool pool) noexcept;
  // begin_to_destroy() is called before the driver destroys the pool, since another pool may get
  // the same handle right after that; end_to_destroy() with its answer, `is_destroyed`, when the
  // driver has answered. `ticket`: what begin_to_destroy() returned; 0, and nothing happens, for a
  // pool that is not known.
  std::uint64_t begin_to_destroy(CUmemoryPool pool) noexcept;
  void end_to_destroy(std::uint64_t ticket, bool is_destroyed) noexcept;

  bool counts() const noexcept { return counts_ != Counts::kNothing; }
  // claim() is called before the bytes are allocated from the pool. Returns false, and claims
  // nothing, when the limit has too few left. `id` is for unclaim(): 0 without a limit. Asks the
  // driver, if there is a limit.
  bool claim(CUmemoryPool pool, std::uint64_t bytes, std::uint64_t& id) noexcept;
  void unclaim(std::uint64_t id, std::uint64_t bytes) noexcept;
  // Asks the driver what is reserved. False when more is taken now than the limit allows.
  bool refresh() noexcept;
  // As claim(), for the launch of a graph. `demand`: the bytes that all graphs together need while
  // it runs. The driver may have reserved some or all of them already.
  bool claim_for_graphs(std::uint64_t demand) noexcept;
  // Called when the driver's call that launches is over. Once no launch is under way, graphs count
  // only with what is reserved. Asks the driver.
  void unclaim_for_graphs() noexcept;

  // The bytes that are taken of the limit because they are reserved, but that nobody has claimed
  // from a pool. As last known.
  std::uint64_t unclaimed() const noexcept;

  // Bytes that a pool has reserved now. Asks the driver.
  std::uint64_t reserved_by(CUmemoryPool pool) noexcept;
  // Has the driver give back to the device what is reserved and not allocated: of every pool known
  // here, the program's included, and of graphs if they count. Returns whether anything was given
  // back.
  bool trim() noexcept;

 private:
  struct Pool {
    std::uint64_t id;
    CUmemoryPool handle;  // nullptr: the entry for claims on pools that are not known
    Owner owner;
    enum class State : std::uint8_t { kThere, kGoing, kDestroyed } state = State::kThere;
    std::uint64_t reserved = 0;  // as last known
    std::uint64_t asked = 0;     // the turn_ in which the driver was asked for `reserved`
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
