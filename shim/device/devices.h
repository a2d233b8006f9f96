// The GPUs that the process uses, and which of them may use the memory of which other.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "shim/device/device.h"

namespace cubfc {

// Thread-safe. Its lock is never held across a driver call. A Device, once made, stays.
class Devices {
 public:
  Devices(const DriverFunctions& driver, const config::Policy& policy, ChooseServer choose_server,
          Observers observers)
      : driver_(driver),
        policy_(policy),
        policy_beside_xla_(policy.beside_xla()),
        choose_server_(choose_server),
        observers_(observers) {}

  // The device, made now if it was not known; nullptr when the driver does not tell what memory it
  // has. Throws std::bad_alloc.
  Device* get(CUdevice handle);
  // nullptr if it is not known yet.
  Device* known(CUdevice handle) const;

  // Every device known so far.
  template <typename Do>
  void for_each(Do what) const {
    for (std::size_t i = 0;; ++i) {
      Device* device = nullptr;
      {
        const std::lock_guard lock(mutex_);
        if (i >= devices_.size()) {
          return;
        }
        device = devices_[i].get();
      }
      what(*device);
    }
  }

  // The device that the pool's memory is on; nullptr if the pool is not known.
  Device* of_pool(CUmemoryPool pool) const noexcept;

  // The block outside of all arenas that contains the address, whether live or not.
  std::optional<Server::Block> find_beside_arenas(CUdeviceptr address) const noexcept;
  // Whether any device has such blocks.
  bool any_beside_arenas() const noexcept {
    return any_beside_arenas_.load(std::memory_order_acquire);
  }
  // Whether another device can reach the blocks of some device only if it was given access.
  bool any_needs_access() const noexcept {
    return any_needs_access_.load(std::memory_order_acquire);
  }

 private:
  Device* find(CUdevice handle) const;
  Device* find_or_make(CUdevice handle);
  const config::Policy& policy_of_new(CUdevice handle) const;
  void introduce(Device& newcomer) const;
  void give_access(Device& owner, CUdevice peer) const;

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  const config::Policy policy_beside_xla_;
  const ChooseServer choose_server_;
  const Observers observers_;
  std::atomic<bool> any_needs_access_{false};
  std::atomic<bool> any_beside_arenas_{false};

  mutable std::mutex mutex_;  // guards the list
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace cubfc
