#include "shim/serve/soft_reserve.h"

#include <cerrno>
#include <cstring>

#include "shim/device/device.h"
#include "shim/serve/unused_memory.h"
#include "shim/tell/log.h"

namespace cubfc {

SoftReserve::SoftReserve(Rendezvous& rendezvous, UnusedMemory& unused)
    : rendezvous_(rendezvous),
      unused_(unused),
      thread_("cubfc-share", {[this] { answer_rings(); }, [this] { rendezvous_.close(); }}) {}

void SoftReserve::offer(Device& device) noexcept {
  if (!device.has_soft_reserve.load(std::memory_order_relaxed) ||
      device.is_offered.exchange(true)) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (offered_ == devices_.size()) {
    return;
  }
  devices_[offered_] = &device;
  if (!rendezvous_.offer(device.id)) {
    log::info("other processes cannot ask for what is preallocated on GPU {}: no file in {} ({})",
              device.handle, shared_folders(), std::strerror(errno));
    return;
  }
  ++offered_;
  if (!thread_.start_once()) {
    log::info("other processes cannot ask for what is preallocated: no thread can be made");
    rendezvous_.close();
  }
}

void SoftReserve::answer_rings() noexcept {
  while (rendezvous_.wait_for_ring()) {
    rendezvous_.answer(
        [this](std::size_t number, std::uint64_t wanted) { return give(number, wanted); });
  }
}

Rendezvous::Answer SoftReserve::give(std::size_t number, std::uint64_t wanted) noexcept {
  Device& device = *devices_[number];
  const std::uint64_t given = wanted == 0 ? 0 : unused_.give_to_others(device, wanted);
  if (given > 0) {
    log::debug("GPU {}: {} given to another process that asked for {}", device.handle,
               log::bytes(given), log::bytes(wanted));
  }
  return {given, unused_.bytes_for_others(device)};
}

void SoftReserve::leave() noexcept {
  if (!thread_.is_running()) {
    rendezvous_.leave();
  }
}

}  // namespace cubfc
