#include "shim/source/memory_sources.h"

#include <new>

#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/meet/rendezvous.h"

namespace cubfc {

Device* MemorySources::device_of(std::optional<CUdevice> device) const noexcept try {
  if (device) {
    return contexts_.devices().get(*device);
  }
  Context* const current = contexts_.current();
  return current == nullptr ? nullptr : &current->device;
} catch (const std::bad_alloc&) {
  return nullptr;
}

void MemorySources::give_up_preallocated(Device& device, std::uint64_t bytes) const {
  if (const auto at_driver = contexts_.free_at_driver(device); at_driver && *at_driver < bytes) {
    const std::uint64_t lacking = bytes - *at_driver;
    const std::uint64_t given = device.preallocation.give_up(lacking);
    if (given < lacking && lacking - given <= rendezvous_.offered(device.id)) {
      rendezvous_.ask(device.id, lacking - given);
    }
  }
}

}  // namespace cubfc
