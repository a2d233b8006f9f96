#include "shim/device/devices.h"

#include <algorithm>

#include "shim/loader/loaded_objects.h"
#include "shim/tell/log.h"

namespace cubfc {

Device* Devices::get(CUdevice handle) {
  Device* const found = find_or_make(handle);
  if (found != nullptr && !found->introduced.load()) {
    introduce(*found);
    found->introduced.store(true);
  }
  return found;
}

Device* Devices::known(CUdevice handle) const {
  const std::lock_guard lock(mutex_);
  return find(handle);
}

// As known(). Precondition: the lock is held.
Device* Devices::find(CUdevice handle) const {
  const auto known = std::find_if(devices_.begin(), devices_.end(),
                                  [&](const auto& each) { return each->handle == handle; });
  return known == devices_.end() ? nullptr : known->get();
}

Device* Devices::find_or_make(CUdevice handle) {
  if (Device* const before = known(handle); before != nullptr) {
    return before;
  }
  std::size_t total_bytes = 0;
  if (driver_.cuDeviceTotalMem_v2(&total_bytes, handle) != CUDA_SUCCESS) {
    return nullptr;
  }
  auto made = std::make_unique<Device>(driver_, policy_of_new(handle), choose_server_, handle,
                                       total_bytes, observers_);
  const std::lock_guard lock(mutex_);
  if (Device* const other = find(handle); other != nullptr) {
    return other;  // another thread was quicker
  }
  any_needs_access_ = any_needs_access_ || made->server->needs_access();
  any_beside_arenas_ = any_beside_arenas_ || made->server->has_blocks_beside_arenas();
  Device* const device = devices_.emplace_back(std::move(made)).get();
  device->publish();
  return device;
}

// The policy for a device that becomes known now. It depends on whether XLA or TensorFlow is loaded
// now. The device keeps it.
const config::Policy& Devices::policy_of_new(CUdevice handle) const {
  const char* const runtime = loaded_xla_runtime();
  if (runtime == nullptr) {
    return policy_;
  }
  if (policy_beside_xla_.limits() != policy_.limits() ||
      policy_beside_xla_.allocator.value != policy_.allocator.value ||
      policy_beside_xla_.unified_memory.value != policy_.unified_memory.value) {
    log::info(
        "GPU {}: the program uses {}, which reads settings such as XLA_PYTHON_CLIENT_MEM_FRACTION "
        "itself; cubfc does not apply them a second time. Use the CUBFC_ names for cubfc's",
        handle, runtime);
  }
  return policy_beside_xla_;
}

// Called for a device that was not known before: gives it access to the memory of the others, and
// the others access to its memory. If two threads come here for one device, both do this, so that
// neither goes on before it is done.
void Devices::introduce(Device& newcomer) const {
  for_each([&](Device& other) {
    if (&other != &newcomer) {
      give_access(other, newcomer.handle);
      give_access(newcomer, other.handle);
    }
  });
}

// Lets `peer` reach the owner's memory, if the hardware can. Memory that the owner's server takes
// later gets the access when it is taken.
void Devices::give_access(Device& owner, CUdevice peer) const {
  int can = 0;
  if (!owner.server->needs_access() || driver_.cuDeviceCanAccessPeer == nullptr ||
      peer >= kMostPeers ||
      driver_.cuDeviceCanAccessPeer(&can, peer, owner.handle) != CUDA_SUCCESS || can == 0) {
    return;
  }
  owner.peers.fetch_or(peer_bit(peer));
  owner.server->give_access(peer);
}

Device* Devices::of_pool(CUmemoryPool pool) const noexcept {
  Device* its_device = nullptr;
  for_each([&](Device& device) {
    its_device = its_device == nullptr && device.limit.pools.has(pool) ? &device : its_device;
  });
  return its_device;
}

std::optional<Server::Block> Devices::find_beside_arenas(CUdeviceptr address) const noexcept {
  std::optional<Server::Block> block;
  if (any_beside_arenas()) {
    for_each([&](const Device& device) {
      if (!block) {
        block = device.server->find(address);
      }
    });
  }
  return block;
}

}  // namespace cubfc
