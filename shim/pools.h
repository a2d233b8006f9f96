// What the driver has reserved on a device for memory pools and for graphs, which is more than what
// is allocated from them.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "shim/driver.h"

namespace cubfc {

// Thread-safe. Its lock is never held across a driver call.
class Pools {
 public:
  Pools(const DriverFunctions& driver, CUdevice device) : driver_(driver), device_(device) {}

  // A pool whose memory is this device's. The device's own default pool need not be added. Throws
  // std::bad_alloc.
  void add(CUmemoryPool pool);
  // False when it was not added.
  bool remove(CUmemoryPool pool) noexcept;
  bool has(CUmemoryPool pool) noexcept;

  // Bytes now, of all pools and graphs; of one pool; and what of that nothing is allocated in.
  std::uint64_t reserved() noexcept;
  std::uint64_t reserved_by(CUmemoryPool pool) noexcept;
  std::uint64_t idle_in(CUmemoryPool pool) noexcept;
  // Gives back to the device what nothing is allocated in. True if there was anything.
  bool trim() noexcept;

 private:
  std::uint64_t ask(CUmemoryPool pool, CUmemPool_attribute attribute) noexcept;
  CUmemoryPool default_pool() noexcept;
  template <typename Do>
  void for_each(Do what) noexcept;

  const DriverFunctions& driver_;
  const CUdevice device_;
  std::mutex mutex_;  // guards both
  std::vector<CUmemoryPool> pools_;
  CUmemoryPool default_pool_ = nullptr;  // once it is known
};

}  // namespace cubfc
