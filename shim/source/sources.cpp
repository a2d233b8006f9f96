#include "shim/source/sources.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "shim/device/contexts.h"
#include "shim/meet/rendezvous.h"
#include "shim/patience.h"
#include "shim/source/memory_sources.h"
#include "shim/source/unused_memory.h"
#include "shim/wait/waiting_frees.h"

namespace cubfc {
namespace {

using arena::less;

using For = TimeLeft::For;

Source::Waited nap(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
  return Source::Waited::kUncounted;
}

// How many bytes other processes are asked for when only the driver knows how much it lacks. 0: no
// more, because the driver must have enough, or refuses for another reason.
std::uint64_t unknown_need(Request& request, const Pass& pass) {
  constexpr std::uint64_t kMost = UnusedMemory::kMostUnknownBytes;
  const std::uint64_t at_first = less(kMost, request.from_processes);
  if (at_first > 0 || !request.time_left.start_or_check(For::kOthers)) {
    return at_first;
  }
  // Ask for more if others have taken what was given up.
  if (!pass.is_blind(request.need)) {
    return less(kMost, pass.at_driver.value_or(0));
  }
  // Without a context the driver cannot be asked what is free. Each of the other processes may take
  // again the kMost bytes that it has given up. So the request may get as many times kMost bytes as
  // there are such processes, but no more than half of the device.
  const Device& device = request.device;
  const std::uint64_t most =
      std::min(request.all.rendezvous().givers(device.id) * kMost, device.total_bytes / 2);
  return std::min(kMost, less(most, request.from_processes));
}

}  // namespace

bool Request::is_possible() const {
  return need.bytes > 0 && need.bytes <= device.total_bytes &&
         (!need.counted || need.bytes <= device.limit.budget.left());
}

Source::Could Preallocated::could_give(const Request& request, const Could& /*lacking*/) {
  return {.of_device = request.device.preallocation.bytes()};
}

bool Preallocated::gives_at_once(Request& request, const Pass& pass) {
  return request.device.preallocation.give_up(pass.least) > 0;
}

FreesThatWait::FreesThatWait(const Device& device) {
  if (const DeviceFrees* const frees = WaitingFrees::known_of(device); frees != nullptr) {
    reclaimed_ = frees->reclaimed();
  }
}

Source::Waited FreesThatWait::gives_after_wait(Request& request, Pass& pass) {
  while (wait(request)) {
    if (request.need.from_blocks ||
        request.all.unused().release(request.device, pass.with_growth, UnusedMemory::Waits::kNo)) {
      return Waited::kUncounted;
    }
  }
  return Waited::kInVain;
}

// True when something has become free since the request was tried. What had been freed when the
// request began to wait is waited for, however long that takes. What other threads have freed since
// then is waited for only as long as there is time left for others.
bool FreesThatWait::wait(Request& request) {
  DeviceFrees* const frees = WaitingFrees::known_of(request.device);
  if (frees == nullptr || are_done_) {
    return false;
  }
  if (!newest_) {
    newest_ = frees->newest();
  }
  bool any_left = frees->has_until(*newest_);
  if (!any_left && frees->newest() != *newest_ && request.time_left.start_or_check(For::kOthers)) {
    newest_ = frees->newest();
    any_left = frees->has_until(*newest_);
  }
  const std::size_t before = reclaimed_;
  const bool helped = frees->reclaimed() != before || (any_left && frees->wait_for_any(before));
  reclaimed_ = frees->reclaimed();
  are_done_ = !any_left && !(helped && request.time_left.start_or_check(For::kOthers));
  return helped;
}

Source::Could Unused::could_give(const Request& request, const Could& /*lacking*/) {
  const Device& device = request.device;
  std::uint64_t held = device.limit.pools.unclaimed();
  request.all.contexts().for_each_alive_on(
      device, [&](Context& context) { held += device.server->bytes_at_hand(context); });
  return {.of_device = held, .of_limit = held};
}

bool Unused::gives_at_once(Request& request, const Pass& pass) {
  return request.all.unused().release(request.device, pass.with_growth, UnusedMemory::Waits::kNo);
}

Source::Waited Unused::gives_after_wait(Request& request, Pass& pass) {
  return request.all.unused().release(request.device, pass.with_growth, UnusedMemory::Waits::kYes)
             ? Waited::kGave
             : Waited::kInVain;
}

Source::Waited PoolsInStreamOrder::gives_after_wait(Request& request, Pass& /*pass*/) {
  return request.all.unused().drain_pools(request.device) ? Waited::kGave : Waited::kInVain;
}

// Only members of this process's group can give something back to the limit. No more of that counts
// than this process could claim in addition if the other members had claimed nothing. If the limit
// was lowered below what the group has taken, bytes that are given back help only once the group is
// within the limit again.
Source::Could OtherProcesses::could_give(const Request& request, const Could& lacking) {
  const Device& device = request.device;
  Rendezvous& others = request.all.rendezvous();
  const arena::Budget& budget = device.limit.budget;
  const Group* const group = device.limit.group();
  const std::uint64_t of_group =
      lacking.of_limit == 0 || group == nullptr
          ? 0
          : less(others.offered(device.id, group->key()), less(group->used(), group->limit()));
  return {.of_device = lacking.of_device == 0 ? 0 : others.offered(device.id),
          .of_limit = std::min(less(budget.own_left(), budget.left()), of_group)};
}

bool OtherProcesses::gives_at_once(Request& request, const Pass& pass) {
  const Need& need = request.need;
  const Device& device = request.device;
  Rendezvous& others = request.all.rendezvous();
  const bool device_has_enough = need.bytes > 0 && pass.at_driver.value_or(0) >= need.bytes;
  const bool is_over_limit = need.counted && device.limit.budget.left() < need.bytes;
  if (is_over_limit && device.limit.group() != nullptr &&
      device.limit.budget.own_left() >= need.bytes) {
    return others.ask(device.id, pass.with_growth, device.limit.group_key()) > 0;
  }
  if (!need.of_device || (device_has_enough && is_over_limit)) {
    return false;
  }
  const std::uint64_t wanted =
      need.bytes > 0 ? pass.with_growth : std::min(pass.with_growth, unknown_need(request, pass));
  const std::uint64_t given = wanted == 0 ? 0 : others.ask(device.id, wanted);
  // A process gives up whole pieces, and then takes back what it gave beyond what was wanted. So no
  // more than `wanted` bytes count.
  request.from_processes += std::min(given, wanted);
  return given > 0;
}

OtherThreads::OtherThreads(const Device& device) : releases_(device.limit.budget.releases()) {}

bool OtherThreads::gives_at_once(Request& request, const Pass& /*pass*/) {
  if (request.time_left.is_over(For::kOthers)) {
    return false;
  }
  bool any = false;
  if (any_takes_) {
    request.all.contexts().for_each_alive_on(
        request.device, [&](Context& context) { any = any || context.arena.wait_for_others(); });
    any_takes_ = any;
  }
  const std::uint64_t before = std::exchange(releases_, request.device.limit.budget.releases());
  return (any || releases_ != before) && request.time_left.start_or_check(For::kOthers);
}

Source::Waited OtherThreads::gives_after_wait(Request& request, Pass& pass) {
  return gives_at_once(request, pass) ? Waited::kGave : Waited::kInVain;
}

Source::Waited EnoughByNow::gives_after_wait(Request& request, Pass& pass) {
  const Need& need = request.need;
  if (!need.of_device) {
    return Waited::kInVain;
  }
  if (!pass.changes) {
    pass.changes = request.all.rendezvous().changes();
  }
  pass.at_driver = request.all.contexts().free_at_driver(request.device);
  if (need.bytes == 0 || !pass.at_driver || *pass.at_driver < need.bytes ||
      request.refused_with_enough == patience::kMostRefusedWithEnough) {
    return Waited::kInVain;
  }
  ++request.refused_with_enough;
  return Waited::kGave;
}

Source::Waited ProcessesThatTake::gives_after_wait(Request& request, Pass& pass) {
  const Need& need = request.need;
  const Device& device = request.device;
  const bool blind = pass.is_blind(need);
  if (!need.of_device || !(blind || (need.bytes > 0 && pass.at_driver))) {
    return Waited::kInVain;
  }
  const Rendezvous::Left others = request.all.rendezvous().look(device.id);
  const bool have_it =
      blind ? others.bytes > 0 && unknown_need(request, pass) > 0
            : *pass.at_driver < need.bytes &&
                  *pass.at_driver + device.preallocation.bytes() + others.bytes >= need.bytes;
  const bool may_have_it = others.is_taking && (blind || request.is_possible());
  return (have_it || may_have_it) && request.time_left.start_or_check(For::kOthers)
             ? nap(patience::kNapForOthers)
             : Waited::kInVain;
}

Source::Waited ProcessesThatEnd::gives_after_wait(Request& request, Pass& pass) {
  const Need& need = request.need;
  Group* const group = request.device.limit.group();
  if (!need.of_device || (pass.at_driver && need.bytes > 0 && *pass.at_driver >= need.bytes)) {
    return Waited::kInVain;
  }
  if (group != nullptr) {
    group->clear_the_dead();
  }
  const bool any = (group != nullptr && group->has_just_lost_member()) ||
                   request.all.rendezvous().is_any_closing(request.device.id);
  if (any && request.time_left.start_or_check(For::kEnding)) {
    return nap(patience::kNapForEnding);
  }
  if (any) {
    request.all.rendezvous().give_up_on_closing(request.device.id);
  }
  return Waited::kInVain;
}

Source::Waited InMotion::gives_after_wait(Request& request, Pass& pass) {
  const bool may_help = request.is_possible() || pass.is_blind(request.need);
  return request.need.of_device && may_help && request.all.rendezvous().changes() != pass.changes &&
                 request.time_left.start_or_check(For::kOthers)
             ? nap(patience::kNapForOthers)
             : Waited::kInVain;
}

}  // namespace cubfc
