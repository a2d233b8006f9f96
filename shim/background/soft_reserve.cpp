#include "shim/background/soft_reserve.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "arena/units.h"
#include "shim/background/map_drawer.h"
#include "shim/device/device.h"
#include "shim/patience.h"
#include "shim/source/unused_memory.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

// How often the thread does what else it has to do: look_around().
constexpr std::chrono::seconds kLookAround{1};

constexpr std::uint64_t kPartBytes = 1ULL << 30;

}  // namespace

SoftReserve::SoftReserve(Rendezvous& rendezvous, UnusedMemory& unused, MapDrawer& map)
    : rendezvous_(rendezvous),
      unused_(unused),
      map_(map),
      thread_("cubfc-share", {[this] { answer_rings(); }, [this] { rendezvous_.interrupt(); }}) {}

void SoftReserve::offer(Device& device) noexcept {
  if (device.is_offered.load(std::memory_order_relaxed) || device.is_offered.exchange(true) ||
      (device.managed && device.limit.group() == nullptr) || !device.policy.gives_to_others()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (offered_ == offers_.size()) {
    return;
  }
  Offer& offer = offers_[offered_];
  offer.all = this;
  offer.number = offered_;
  offer.device = &device;
  if (!rendezvous_.offer(device.id, device.limit.group_key())) {
    log::info("GPU {}: other processes cannot get memory that this one does not use: {}",
              device.handle, why_no_shared_file(errno));
    offer.device = nullptr;
    return;
  }
  ++offered_;
  if (!thread_.start_once()) {
    log::info(
        "other processes cannot get memory that this one does not use: no thread can be started "
        "(is `ulimit -u` reached?)");
    rendezvous_.close();
  }
}

void SoftReserve::answer_rings() noexcept {
  using Clock = std::chrono::steady_clock;
  auto next_look = Clock::now() + kLookAround;
  for (;;) {
    switch (rendezvous_.wait_for_ring(next_look - Clock::now())) {
      case Rendezvous::Woken::kByInterrupt:
        give_all_back();
        rendezvous_.close();
        return;
      case Rendezvous::Woken::kByTime:
        break;
      case Rendezvous::Woken::kByRing:
        rendezvous_.answer(
            [this](std::size_t number, std::uint64_t wanted) { return give(number, wanted); },
            [this](std::size_t number) { return left(number); });
        break;
    }
    if (Clock::now() >= next_look) {  // also while others ask all the time
      look_around();
      next_look = Clock::now() + kLookAround;
    }
  }
}

void SoftReserve::look_around() noexcept {
  if (BackgroundThread::program_is_over()) {
    rendezvous_.interrupt();
    return;
  }
  rendezvous_.meet_again();
  meet_groups_again();
  map_.refresh_figures();
  map_.draw_wanted();
}

// Called when the program ends. From now on no other process can ask this one for memory. Without
// this function others would lack the memory until the last exit handler has run and the driver has
// taken the memory back.
void SoftReserve::give_all_back() noexcept {
  rendezvous_.begin_to_close();
  const auto until = std::chrono::steady_clock::now() + patience::kForGivingBackAtExit;
  for (const Offer& offer : offers_) {
    Device* const device = offer.device.load();
    if (device == nullptr) {
      return;
    }
    while (unused_.give_to_others(*device, kPartBytes, arena::kLargestRequestBytes) > 0 &&
           std::chrono::steady_clock::now() < until) {
    }
  }
}

void SoftReserve::meet_groups_again() noexcept {
  for (const Offer& offer : offers_) {
    Device* const device = offer.device.load();
    if (Group* const group = device == nullptr ? nullptr : device->limit.group();
        group != nullptr) {
      group->meet_again();
      device->look_at_group_limit();
    }
  }
}

// Called by Rendezvous::answer() until this function returns 0 or nothing more is wanted. Gives
// back a part of the `wanted` bytes at a time, so that the process that waits sees progress.
// Returns the bytes given back. The number comes from a file that other programs may write to: for
// a device that was never offered, returns 0.
std::uint64_t SoftReserve::give(std::size_t number, std::uint64_t wanted) noexcept {
  Offer& offer = offers_[number];
  Device* const known = offer.device.load();
  if (known == nullptr) {
    return 0;
  }
  Device& device = *known;
  const std::uint64_t at_most = device.beyond_request();
  wanted = std::min(wanted, at_most);
  const std::uint64_t given =
      wanted == 0 ? 0 : unused_.give_to_others(device, std::min(wanted, kPartBytes), wanted);
  if (given > 0) {
    if (Group* const group = device.limit.group(); group != nullptr) {
      group->has_given_back(given);
    }
    log::debug("GPU {}: {} given to another process that asked for {}", device.handle,
               log::bytes(given), log::bytes(wanted));
  }
  // If nothing was given, the driver has refused to take back what is there, or another driver call
  // has it in hand.
  offer.refused = given > 0 ? 0 : std::min(unused_.for_others(device).bytes, at_most);
  offer.refused_until = std::chrono::steady_clock::now() + kLookAround;
  return given;
}

Rendezvous::Left SoftReserve::left(std::size_t number) noexcept {
  Offer& offer = offers_[number];
  Device* const known = offer.device.load();
  if (known == nullptr) {
    return 0;
  }
  Device& device = *known;
  // These two come before the bytes are counted. So the count includes what takers have taken by
  // now, and the watcher is told of each change after the count.
  const bool is_taking = device.takers.load(std::memory_order_acquire) > 0;
  device.use.watch(offer);
  const auto [unused, is_all] = unused_.for_others(device);
  const std::uint64_t bytes = std::min(unused, device.beyond_request());
  const bool is_refused =
      offer.refused > 0 && std::chrono::steady_clock::now() < offer.refused_until;
  return {bytes - (is_refused ? std::min(bytes, offer.refused) : 0), is_taking,
          is_all && !is_refused && !is_taking && device.policy.observes()};
}

SoftReserve::Taking::Taking(Device& device) noexcept : device_(device) {
  device_.takers.fetch_add(1, std::memory_order_relaxed);
}

SoftReserve::Taking::~Taking() {
  device_.takers.fetch_sub(1, std::memory_order_release);
}

void SoftReserve::leave() noexcept {
  if (!thread_.is_running()) {
    rendezvous_.leave();
  }
}

}  // namespace cubfc
