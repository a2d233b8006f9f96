#include "shim/serve/unused_memory.h"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

#include "shim/device/context_use.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/driver/captures.h"
#include "shim/driver/pushed_context.h"
#include "shim/meet/rendezvous.h"
#include "shim/serve/waiting_frees.h"

namespace cubfc {
namespace {

// What is given back at a time for the driver's own needs, which it does not tell.
constexpr std::uint64_t kStepBytes = 256ULL << 20;

// What others are asked for where only the driver knows what it lacks. A context takes half of it.
// An error that has nothing to do with memory is to cost them no more.
constexpr std::uint64_t kMostUnknownBytes = 1ULL << 30;

// For what other threads give back, as long as there is enough for the request in all.
constexpr std::chrono::seconds kPatienceForOthers{2};
constexpr std::chrono::milliseconds kNapForOthers{1};
constexpr std::chrono::milliseconds kNapForEnding{10};  // each looks for the dead of a group
// Others may end, one after the other, for ever.
constexpr std::chrono::seconds kPatienceForEnding{6};

}  // namespace

UnusedMemory::UnusedMemory(const DriverFunctions& driver, Contexts& contexts, Captures& captures,
                           WaitingFrees& waiting, Rendezvous& rendezvous)
    : driver_(driver),
      contexts_(contexts),
      captures_(captures),
      waiting_(waiting),
      rendezvous_(rendezvous) {
  contexts.add_listener(*this);
}

UnusedMemory::Tries::Tries(const Device& device, const Need& need)
    : need_(need), releases_(device.limit.budget.releases()) {
  if (const DeviceFrees* const frees = WaitingFrees::known_of(device); frees != nullptr) {
    reclaimed_ = frees->reclaimed();
  }
}

bool UnusedMemory::make_room(Device& device, Tries& tries, Waits waits) {
  if (tries.tried_ == Tries::kMost) {
    return false;
  }
  const int doublings = std::min(tries.tried_++, 20);
  const std::optional<std::uint64_t> at_driver = free_at_driver(device);
  if (at_driver && *at_driver < tries.need_.bytes) {
    tries.refused_with_enough_ = 0;  // it refused because others were quicker
  }
  if (!can_become_free(device, tries.need_, at_driver)) {
    return others_have_helped(device, tries) ||
           (waits == Waits::kYes && comes_from_elsewhere(device, tries));
  }
  // More each time, or threads that go on allocating take it as fast as it is given back.
  const std::uint64_t least = lacking(device, tries.need_, at_driver) << doublings;
  const std::uint64_t bytes = least + tries.growth_ - std::min(tries.growth_, tries.need_.bytes);
  if (device.preallocation.give_up(least) > 0 || release(device, bytes, Waits::kNo) ||
      ask_others(device, tries, at_driver, bytes) || others_have_helped(device, tries)) {
    return true;
  }
  if (waits == Waits::kNo) {
    return false;
  }
  while (wait_for_frees(device, tries)) {
    if (tries.need_.from_blocks || release(device, bytes, Waits::kNo)) {
      --tries.tried_;
      return true;
    }
  }
  return release(device, bytes, Waits::kYes) || drain_pools(device) ||
         others_have_helped(device, tries) || comes_from_elsewhere(device, tries);
}

void UnusedMemory::give_up_preallocated(Device& device, std::uint64_t bytes) {
  if (const auto at_driver = free_at_driver(device); at_driver && *at_driver < bytes) {
    const std::uint64_t lacking = bytes - *at_driver;
    const std::uint64_t given = device.preallocation.give_up(lacking);
    if (given < lacking && lacking - given <= rendezvous_.offered(device.id)) {
      rendezvous_.ask(device.id, lacking - given);
    }
  }
}

// With the limit only those can help that are in the group whose budget it is.
bool UnusedMemory::ask_others(const Device& device, Tries& tries,
                              std::optional<std::uint64_t> at_driver, std::uint64_t bytes) {
  const Need& need = tries.need_;
  const bool device_has_enough = need.bytes > 0 && at_driver.value_or(0) >= need.bytes;
  const bool is_over_limit = need.counted && device.limit.budget.left() < need.bytes;
  if (is_over_limit && device.limit.group() != nullptr &&
      device.limit.budget.own_left() >= need.bytes) {
    return rendezvous_.ask(device.id, bytes, device.limit.group_key()) > 0;
  }
  if (!need.of_device || (device_has_enough && is_over_limit)) {
    return false;
  }
  const std::uint64_t wanted =
      need.bytes > 0 ? bytes : std::min(bytes, unknown_need(device, tries, at_driver));
  const std::uint64_t given = wanted == 0 ? 0 : rendezvous_.ask(device.id, wanted);
  tries.from_others_ += std::min(given, wanted);  // of a larger piece the rest is taken anew
  return given > 0;
}

// What others are asked for where only the driver knows how much it lacks. 0: it lacks none, or has
// another reason.
std::uint64_t UnusedMemory::unknown_need(const Device& device, Tries& tries,
                                         std::optional<std::uint64_t> at_driver) {
  const auto up_to = [](std::uint64_t most, std::uint64_t bytes) {
    return most - std::min(most, bytes);
  };
  const std::uint64_t at_first = up_to(kMostUnknownBytes, tries.from_others_);
  if (at_first > 0 || !is_patient(tries)) {
    return at_first;
  }
  // More where others have taken what was given.
  if (!is_blind(tries.need_, at_driver)) {
    return up_to(kMostUnknownBytes, at_driver.value_or(0));
  }
  // Nobody can ask the driver what is free then: each other process may have taken as much.
  const std::uint64_t most =
      std::min(rendezvous_.givers(device.id) * kMostUnknownBytes, device.total_bytes / 2);
  return std::min(kMostUnknownBytes, up_to(most, tries.from_others_));
}

std::uint64_t UnusedMemory::give_to_others(Device& device, std::uint64_t bytes,
                                           std::uint64_t wanted) noexcept {
  std::uint64_t given = device.preallocation.give_to_others(bytes, wanted);
  given += given < bytes ? release_of_arenas(device, bytes - given, Waits::kNo) : 0;
  return given + (given < bytes ? device.server->trim(true) : 0);
}

std::uint64_t UnusedMemory::bytes_for_others(Device& device) noexcept {
  if (DeviceFrees* const frees = WaitingFrees::known_of(device); frees != nullptr) {
    frees->close_and_collect();  // a block that waits keeps its whole region
  }
  std::uint64_t bytes = device.preallocation.bytes_for_others() + device.server->idle_pool_bytes();
  contexts_.for_each_alive_on(device, [&](Context& context) {
    const ContextUse use(contexts_, context, ContextUse::Waits::kNo);
    const std::uint64_t unused = use.allowed() ? context.arena.unused_bytes() : 0;
    bytes += unused > 0 && works(context) && is_released_at_once(context) ? unused : 0;
  });
  return bytes;
}

std::optional<std::uint64_t> UnusedMemory::free_at_driver(const Device& device) {
  std::optional<std::uint64_t> bytes;
  contexts_.for_each_alive_on(device, [&](const Context& context) {
    if (bytes) {
      return;
    }
    const RelaxedCapture relaxed(driver_);
    const PushedContext inside(driver_, context.handle);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (inside.pushed() && driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
      bytes = free_bytes;
    }
  });
  return bytes;
}

// Of the device, or of the limit. Where there seems to be enough, it was not.
std::uint64_t UnusedMemory::lacking(const Device& device, const Need& need,
                                    std::optional<std::uint64_t> at_driver) {
  if (need.bytes == 0) {
    return is_blind(need, at_driver) ? kMostUnknownBytes : kStepBytes;
  }
  const std::uint64_t of_device = need.of_device ? at_driver.value_or(0) : need.bytes;
  const std::uint64_t of_limit = need.counted ? device.limit.budget.left() : need.bytes;
  const std::uint64_t there = std::min(of_device, of_limit);
  return there < need.bytes ? need.bytes - there : need.bytes;
}

// Once everything that was freed is free, and all else that no block needs given back. True where
// that cannot be told.
bool UnusedMemory::can_become_free(const Device& device, const Need& need,
                                   std::optional<std::uint64_t> at_driver) {
  std::uint64_t held = device.limit.pools.unclaimed();
  contexts_.for_each_alive_on(
      device, [&](Context& context) { held += device.server->bytes_at_hand(context); });
  const std::uint64_t of_device = at_driver.value_or(need.bytes) + device.preallocation.bytes();
  return (!need.of_device || need.bytes <= held + of_device ||
          need.bytes <= held + of_device + rendezvous_.offered(device.id)) &&
         (!need.counted || need.bytes <= held + std::min(need.bytes, device.limit.budget.left()) ||
          need.bytes <= held + left_with_group(device));
}

// What is left of the limit once members of the group have given back what they can.
std::uint64_t UnusedMemory::left_with_group(const Device& device) {
  const Group* const group = device.limit.group();
  const arena::Budget& budget = device.limit.budget;
  return group == nullptr ? 0
                          : std::min(budget.own_left(),
                                     budget.left() + rendezvous_.offered(device.id, group->key()));
}

// True when something has become free since the request was tried. Of what was freed when the
// request began, each block is waited for, however long that takes. After that, as long as other
// threads take what becomes free and free more, that is waited for, too, but not for ever.
bool UnusedMemory::wait_for_frees(const Device& device, Tries& tries) {
  DeviceFrees* const frees = WaitingFrees::known_of(device);
  if (frees == nullptr || tries.frees_are_done_) {
    return false;
  }
  std::uint64_t newest = tries.newest_ ? *tries.newest_ : tries.newest_.emplace(frees->newest());
  bool any_left = frees->has_until(newest);
  if (!any_left && frees->newest() != newest && is_patient(tries)) {
    newest = tries.newest_.emplace(frees->newest());
    any_left = frees->has_until(newest);
  }
  const std::size_t before = tries.reclaimed_;
  const bool helped = frees->reclaimed() != before || (any_left && frees->wait_for_any(before));
  tries.reclaimed_ = frees->reclaimed();
  tries.frees_are_done_ = !any_left && !(helped && is_patient(tries));
  return helped;
}

// Whether what others have in hand is still waited for. The time begins with the first question.
bool UnusedMemory::is_patient(Tries& tries) {
  const auto now = std::chrono::steady_clock::now();
  tries.others_until_ = tries.others_until_.value_or(now + kPatienceForOthers);
  return now <= *tries.others_until_;
}

// Another thread's request that is just taking more than it needs, perhaps, or giving back, is
// waited for.
bool UnusedMemory::others_have_helped(const Device& device, Tries& tries) {
  if (!is_patient(tries)) {
    return false;
  }
  bool any = false;
  if (tries.waits_for_others_) {
    contexts_.for_each_alive_on(
        device, [&](Context& context) { any = any || context.arena.wait_for_others(); });
    tries.waits_for_others_ = any;
  }
  const std::uint64_t before = std::exchange(tries.releases_, device.limit.budget.releases());
  return any || tries.releases_ != before;
}

// Looks at the device and at one process after the other. What went from one to the next meanwhile
// may have been seen with none of them: it is looked for again.
bool UnusedMemory::comes_from_elsewhere(const Device& device, Tries& tries) {
  const std::uint32_t before = rendezvous_.changes();
  if (has_become_free(device, tries) || comes_from_others(device, tries) ||
      comes_from_ending(device, tries) || has_become_free(device, tries)) {
    return true;
  }
  const bool may_help =
      is_possible(device, tries.need_) || is_blind(tries.need_, free_at_driver(device));
  if (!tries.need_.of_device || !may_help || rendezvous_.changes() == before ||
      !is_patient(tries)) {
    return false;
  }
  nap(tries, kNapForOthers);
  return true;
}

// A process without a context asks for its first one: the driver alone knows what it lacks, and
// nobody can ask it what is free.
bool UnusedMemory::is_blind(const Need& need, std::optional<std::uint64_t> at_driver) {
  return need.bytes == 0 && !at_driver;
}

// Whether the device, if it were empty, and the limit have so much.
bool UnusedMemory::is_possible(const Device& device, const Need& need) {
  return need.bytes > 0 && need.bytes <= device.total_bytes &&
         (!need.counted || need.bytes <= device.limit.budget.left());
}

// The try that follows is not one of those that may all be in vain.
void UnusedMemory::nap(Tries& tries, std::chrono::milliseconds time) {
  --tries.tried_;
  std::this_thread::sleep_for(time);
}

// By now there is enough, which others may see, too, and be quicker. Asked last, too: whoever was
// seen to have memory gives it back before it is seen to have none.
bool UnusedMemory::has_become_free(const Device& device, Tries& tries) {
  const Need& need = tries.need_;
  const std::optional<std::uint64_t> at_driver = free_at_driver(device);
  if (!need.of_device || need.bytes == 0 || !at_driver || *at_driver < need.bytes ||
      tries.refused_with_enough_ == Tries::kMostRefusedWithEnough) {
    return false;
  }
  ++tries.refused_with_enough_;
  return true;
}

// Other processes say that they have it, and one gives it up at this moment for somebody else who
// takes less. Or one is just taking memory, and may have more of it to give than any of them says
// now. Naps.
bool UnusedMemory::comes_from_others(const Device& device, Tries& tries) {
  const Need& need = tries.need_;
  const std::optional<std::uint64_t> at_driver = free_at_driver(device);
  const bool blind = is_blind(need, at_driver);
  if (!need.of_device || !(blind || (need.bytes > 0 && at_driver))) {
    return false;
  }
  const Rendezvous::Left others = rendezvous_.look(device.id);
  const bool others_have_it =
      blind ? others.bytes > 0 && unknown_need(device, tries, at_driver) > 0
            : *at_driver < need.bytes &&
                  *at_driver + device.preallocation.bytes() + others.bytes >= need.bytes;
  const bool others_may_have_it = others.is_taking && (blind || is_possible(device, need));
  if (!(others_have_it || others_may_have_it) || !is_patient(tries)) {
    return false;
  }
  nap(tries, kNapForOthers);
  return true;
}

// A process that had some to give is just giving back all of it, since it ends. Or a member of the
// group was killed, and its claims are the group's again, but the driver is still at taking its
// memory back. Naps.
bool UnusedMemory::comes_from_ending(const Device& device, Tries& tries) {
  Group* const group = device.limit.group();
  const std::optional<std::uint64_t> at_driver = free_at_driver(device);
  if (!tries.need_.of_device ||
      (at_driver && tries.need_.bytes > 0 && *at_driver >= tries.need_.bytes)) {
    return false;
  }
  if (group != nullptr) {
    group->clear_the_dead();
  }
  const auto now = std::chrono::steady_clock::now();
  tries.ending_until_ = tries.ending_until_.value_or(now + kPatienceForEnding);
  if (now > *tries.ending_until_ || !((group != nullptr && group->has_just_lost_member()) ||
                                      rendezvous_.is_any_closing(device.id))) {
    return false;
  }
  nap(tries, kNapForEnding);
  return true;
}

Device* UnusedMemory::device_of(std::optional<CUdevice> device) noexcept try {
  if (device) {
    return contexts_.devices().get(*device);
  }
  Context* const current = contexts_.current();
  return current == nullptr ? nullptr : &current->device;
} catch (const std::bad_alloc&) {
  return nullptr;
}

// What is freed in stream order comes back to the limit when the stream has got there.
bool UnusedMemory::drain_pools(Device& device) {
  WaitPermit permit(captures_);
  const std::uint64_t before = device.limit.pools.unclaimed();
  if (!permit.given() || before == 0) {
    return false;
  }
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    if (context->alive() && &context->device == &device) {
      contexts_.synchronize(*context, permit);
      device.limit.pools.refresh();
      return release(device, kStepBytes, Waits::kYes) || device.limit.pools.unclaimed() < before;
    }
  }
  return false;
}

bool UnusedMemory::make_limit_hold(Device& device) {
  Pools& pools = device.limit.pools;
  const bool holds = pools.refresh();
  device.preallocation.keep_to_limit();
  return holds || (release(device, kStepBytes, Waits::kYes) && pools.refresh());
}

void UnusedMemory::context_will_end(Context& context) noexcept {
  Server& server = *context.device.server;
  WaitPermit permit(captures_);
  if (!server.frees_blocks_before_end() || !permit.given()) {
    return;
  }
  const PushedContext inside(driver_, context.handle);
  if (inside.pushed() && permit.block([&] { return driver_.cuCtxSynchronize(); }) == CUDA_SUCCESS) {
    server.free_all_of(context);
  }
}

void UnusedMemory::context_ended(std::uint64_t /*id*/) {
  contexts_.devices().for_each([&](Device& device) {
    bool any = false;
    contexts_.for_each_alive_on(
        device, [&](const Context& each) { any = any || each.has(Context::kStarted); });
    if (!any) {
      device.preallocation.end();
    }
  });
}

// So many bytes of what the device's arenas and pools hold without a block in it. True if there was
// anything.
bool UnusedMemory::release(Device& device, std::uint64_t bytes, Waits waits) {
  Pools& pools = device.limit.pools;
  const bool asks_pools = device.server->has_blocks_beside_arenas() || pools.counts();
  if (asks_pools && pools.trim()) {
    return true;
  }
  return release_of_arenas(device, bytes, waits) > 0;
}

// With Waits::kNo only what can be had at once. Returns bytes.
std::uint64_t UnusedMemory::release_of_arenas(Device& device, std::uint64_t bytes, Waits waits) {
  std::uint64_t released = 0;
  contexts_.for_each_alive_on(device, [&](Context& context) {
    const bool at_once = waits == Waits::kNo;
    const ContextUse use(contexts_, context,
                         at_once ? ContextUse::Waits::kNo : ContextUse::Waits::kYes);
    if (released >= bytes || !use.allowed() || context.arena.unused_bytes() == 0 ||
        (at_once && !is_released_at_once(context))) {
      return;
    }
    // The current context may be another one, or none, and then the driver frees nothing.
    const PushedContext inside(driver_, context.handle);
    const bool can = inside.pushed() && works(context);
    released += can ? context.arena.release_unused(bytes - released) : 0;
  });
  return released;
}

// Else the driver takes nothing back: its work has gone wrong for good.
bool UnusedMemory::works(Context& context) {
  const RelaxedCapture relaxed(driver_);
  const PushedContext inside(driver_, context.handle);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const CUresult result = driver_.cuMemGetInfo_v2(&free_bytes, &total_bytes);
  context.note(result);
  return inside.pushed() && result == CUDA_SUCCESS;
}

// Where giving back a region is the driver's cuMemFree, that waits for the work of its context.
bool UnusedMemory::is_released_at_once(Context& context) {
  return !context.memory->release_waits() || is_idle(context);
}

bool UnusedMemory::is_idle(Context& context) {
  const WaitPermit permit(captures_);
  return permit.given() && waiting_.fences().is_idle(context, permit);
}

// The current context may be another, or none.
std::uint64_t UnusedMemory::trim(bool preallocated) noexcept {
  std::uint64_t bytes = 0;
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    const ContextUse use(contexts_, *context, ContextUse::Waits::kNo);
    if (!use.allowed()) {
      continue;
    }
    const PushedContext inside(driver_, context->handle);
    if (!inside.pushed()) {
      continue;
    }
    if (DeviceFrees* const frees = WaitingFrees::known_of(context->device); frees != nullptr) {
      frees->close_and_collect();
    }
    const bool waits = context->memory->release_waits() && context->arena.unused_bytes() > 0 &&
                       waiting_.fences().can_record() && !is_idle(*context);
    const std::uint64_t released =
        waits ? 0  // another time
              : context->arena.release_beyond(preallocated ? 0 : context->preallocated.load());
    bytes += released;
    bytes -= preallocated ? 0 : keep_preallocated(context->device, released);
    bytes += context->device.server->trim(preallocated);
  }
  if (preallocated) {
    contexts_.devices().for_each([&](Device& device) {
      bytes += device.preallocation.give_up(arena::kLargestRequestBytes);
    });
  }
  return bytes;
}

// Of so many bytes that arenas have given back, what belongs to the preallocation. Returns bytes.
std::uint64_t UnusedMemory::keep_preallocated(Device& device, std::uint64_t released) {
  Preallocation& shared = device.preallocation;
  std::uint64_t there = shared.bytes();
  contexts_.for_each_alive_on(
      device, [&](const Context& context) { there += context.arena.stats().pool_bytes; });
  const std::uint64_t before = shared.bytes();
  if (there < shared.planned()) {
    shared.hold(std::min(released, shared.planned() - there));
  }
  return std::min(released, shared.bytes() - std::min(shared.bytes(), before));
}

}  // namespace cubfc
