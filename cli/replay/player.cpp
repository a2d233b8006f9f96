#include "cli/replay/player.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "arena/arena.h"
#include "cli/replay/simulated_device.h"
#include "config/arena_options.h"

namespace cubfc::replay {
namespace {

using recordings::Event;
using recordings::kNone;
using recordings::Recording;
using trace::Kind;
using trace::Memory;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kGranularity = arena::kSourceUnitBytes;  // of the driver's pages
// As Search's (shim/source/): more tries would be for a reason that is not lack of memory.
constexpr int kMostTries = 1000;
// Contexts that have memory at once; a process has a few for each device.
constexpr std::size_t kMostArenas = 4096;
// Operations between two words on how far it is.
constexpr std::size_t kStep = std::size_t{1} << 16;

bool has_arena(const config::Policy& policy, const Group& group) {
  return group.place.memory == Memory::kArena &&
         policy.allocator.value != config::Allocator::kPlatform;
}

// By whom memory of this group is served under the policy.
Memory memory_of(const config::Policy& policy, const Group& group) {
  return group.place.memory == Memory::kArena && !has_arena(policy, group) ? Memory::kDirect
                                                                           : group.place.memory;
}

bool is_counted(const config::Policy& policy, Memory memory) {
  return policy.limit_counts.value == config::LimitCounts::kAll || memory == Memory::kArena ||
         memory == Memory::kDirect;
}

struct Total {
  std::uint64_t bytes;
  const char* origin;
};

std::optional<std::uint64_t> limit_of(const Device& device, const Conditions& conditions) {
  return conditions.policy.mem_limit.value.on(device.number);
}

Total total_of(const Device& device, const Conditions& conditions) {
  const std::optional<std::uint64_t> limit = limit_of(device, conditions);
  if (conditions.total_bytes != 0) {
    return {conditions.total_bytes, "--total"};
  }
  if (device.total_bytes != 0) {
    return {device.total_bytes, "as recorded"};
  }
  if (limit) {
    return {*limit, "the limit; --total says how much it has"};
  }
  return {arena::round_up(std::min(device.peak_bytes, kPlenty / 4) * 2, kGiB),
          "twice the peak; --total says how much it has"};
}

std::uint64_t total_bytes_of(const Device& device, const Conditions& conditions) {
  const std::uint64_t total = total_of(device, conditions).bytes;
  return conditions.device_is_large_enough
             ? std::max(total, limit_of(device, conditions).value_or(0))
             : total;
}

// What the device can give.
std::uint64_t memory_bytes_of(const Device& device, const Conditions& conditions) {
  return conditions.device_is_large_enough ? kPlenty : total_bytes_of(device, conditions);
}

bool lacks_memory(arena::Failure failure) {
  return failure != arena::Failure::kSourceError && failure != arena::Failure::kTooLarge;
}

// Writes events as the recording's that cause them are, but for what happens.
class Sink {
 public:
  Sink(const Recording& recording, recordings::TraceWriter& writer)
      : recording_(recording), writer_(writer) {}

  void set_cause(std::uint32_t event) { cause_ = event; }

  void write(Kind kind, std::uint32_t group, std::uint64_t address, std::uint64_t bytes,
             std::uint64_t padding = 0, std::string_view text = {}) {
    const Event& cause = recording_.events[cause_];
    const bool has_caller = kind != Kind::kReclaim && kind != Kind::kEpoch;
    Event event;
    event.time_ns = cause.time_ns;
    event.kind = kind;
    event.place = group;
    event.address = address;
    event.bytes = bytes;
    event.padding = static_cast<std::uint32_t>(padding);
    event.thread = cause.thread;
    event.caller = has_caller ? cause.caller : std::uint8_t{0};
    writer_.write(event, text);
  }

 private:
  const Recording& recording_;
  recordings::TraceWriter& writer_;
  std::uint32_t cause_ = 0;
};

// The arena of a context.
class PlayedArena : public GrowthListener {
 public:
  PlayedArena(SimulatedDevice& its_device, std::uint32_t group, std::uint64_t page_bytes,
              Sink* sink)
      : device(its_device),
        memory(its_device, (arena::Address{group % kMostArenas} + 1) << 44, page_bytes),
        arena(memory, its_device.budget, {}),
        group_(group),
        sink_(sink) {
    memory.set_listener(sink == nullptr ? nullptr : this);
  }

  void grew(arena::Address base, std::uint64_t bytes) override {
    sink_->write(Kind::kGrow, group_, base, bytes);
  }
  void shrank(arena::Address base, std::uint64_t bytes) override {
    sink_->write(Kind::kShrink, group_, base, bytes);
  }

  // A free that waits for nothing.
  void retire(arena::Address address, std::uint64_t block_bytes, std::uint64_t free_beside) {
    if (sink_ != nullptr) {
      sink_->write(Kind::kRetire, group_, address, block_bytes);
      open_.blocks.emplace_back(address, block_bytes);
    }
    if (arena.gather(address, free_beside) == arena::Arena::Gathered::kFull) {
      close();
    }
  }
  // The context is gone, with all of its memory.
  void end() {
    arena.abandon();
    memory.forget();
  }

  // The work before all but the last of them is done.
  void collect() {
    while (closed_.size() > 1) {
      reclaim_oldest();
    }
  }
  // False when nothing waits.
  bool wait() {
    if (closed_.empty() && arena.has_gathered()) {
      close();
    }
    return !closed_.empty() && reclaim_oldest();
  }

  SimulatedDevice& device;
  SimulatedMemory memory;
  arena::Arena arena;

 private:
  struct Epoch {
    arena::GatheredBlocks gathered;
    std::vector<std::pair<arena::Address, std::uint64_t>> blocks;  // only for a trace
  };

  void close() {
    open_.gathered = arena.take_gathered();
    if (sink_ != nullptr) {
      sink_->write(Kind::kEpoch, group_, 0, open_.gathered.bytes, open_.gathered.count);
    }
    closed_.push_back(std::exchange(open_, {}));
  }

  bool reclaim_oldest() {
    const Epoch epoch = std::move(closed_.front());
    closed_.pop_front();
    arena.reclaim(epoch.gathered);
    for (const auto& [address, bytes] : epoch.blocks) {
      sink_->write(Kind::kReclaim, group_, address, bytes);
    }
    return true;
  }

  const std::uint32_t group_;
  Sink* const sink_;
  Epoch open_;
  std::deque<Epoch> closed_;  // the oldest first
};

class Player {
 public:
  Player(const Recording& recording, const Workload& workload, const Conditions& conditions,
         recordings::TraceWriter* writer)
      : recording_(recording),
        workload_(workload),
        conditions_(conditions),
        policy_(conditions.policy),
        writer_(writer),
        arenas_(workload.groups.size()),
        slots_(workload.slots),
        beside_(workload.groups.size()) {
    if (writer != nullptr) {
      sink_ = std::make_unique<Sink>(recording, *writer);
    }
    for (const Device& device : workload.devices) {
      devices_.push_back(std::make_unique<SimulatedDevice>(policy_, device.number,
                                                           total_bytes_of(device, conditions),
                                                           memory_bytes_of(device, conditions)));
      arenas_of_device_.emplace_back();
    }
  }

  Outcome play(const Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<Operation>& all = workload_.operations;
    bool goes_on = true;
    while (goes_on && done_ < all.size()) {
      const std::size_t until = std::min(all.size(), done_ + kStep);
      while (goes_on && done_ < until) {
        goes_on = obey(all[done_++]);
      }
      if (progress) {
        progress(static_cast<double>(done_) / static_cast<double>(all.size()));
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    outcome_.seconds = seconds.count();
    close_trace();
    sum_up();
    return std::move(outcome_);
  }

 private:
  struct Slot {
    arena::Address address = 0;
    std::uint64_t bytes = 0;
  };

  // NULL where the group's memory is in none.
  PlayedArena* arena_of(std::uint32_t group) {
    if (arenas_[group] == nullptr && has_arena(policy_, workload_.groups[group])) {
      make_arena(group);
    }
    return arenas_[group].get();
  }

  void make_arena(std::uint32_t group) {
    const std::uint32_t number = workload_.groups[group].device;
    SimulatedDevice& device = *devices_[number];
    if (arena_count_ == kMostArenas) {
      throw std::runtime_error("more than " + std::to_string(kMostArenas) +
                               " contexts have memory at once, which cannot be replayed");
    }
    ++arena_count_;
    const std::uint64_t page_bytes =
        policy_.allocator.value == config::Allocator::kVmm
            ? config::page_bytes(std::min(device.total_bytes, device.budget.limit()), kGranularity)
            : 0;
    arenas_[group] = std::make_unique<PlayedArena>(device, group, page_bytes, sink_.get());
    arenas_of_device_[number].push_back(arenas_[group].get());
    begin(*arenas_[group]);
  }

  void end_arena(std::uint32_t group) {
    if (arenas_[group] != nullptr) {
      arenas_[group]->end();
      driver_calls_ += arenas_[group]->memory.calls();
      std::erase(arenas_of_device_[workload_.groups[group].device], arenas_[group].get());
      arenas_[group] = nullptr;
      --arena_count_;
    }
  }

  // As Contexts::start() and Device::begin_arena() (shim/device/). What is taken ahead is the
  // device's, and in no arena's way.
  void begin(PlayedArena& played) {
    const std::uint64_t free_bytes =
        std::min(played.device.free_bytes(), played.device.total_bytes);
    arena::Options options = config::arena_options(
        policy_,
        {.total_bytes = played.device.total_bytes, .limit_bytes = played.device.budget.limit()},
        policy_.preallocation(free_bytes, played.device.total_bytes));
    played.device.plan(options.preallocate_bytes);
    if (!options.whole) {
      options.preallocate_bytes = 0;
    }
    played.arena.begin(options);
  }

  // False at the first request that got memory in the recording and gets none here.
  bool obey(const Operation& operation) {
    if (sink_ != nullptr) {
      sink_->set_cause(operation.event);
    }
    switch (operation.kind) {
      case Operation::Kind::kAllocate:
        return allocate(operation);
      case Operation::Kind::kFree:
        free(operation);
        return true;
      case Operation::Kind::kFail:
        try_again(operation);
        return true;
      case Operation::Kind::kEndGroup:
        end(operation.group);
        return true;
      case Operation::Kind::kCopy:
        if (sink_ != nullptr) {
          const Event& event = recording_.events[operation.event];
          sink_->write(event.kind, kNone, event.address, event.bytes);
        }
        return true;
    }
    return true;
  }

  bool allocate(const Operation& operation) {
    ++outcome_.operations;
    Slot& slot = slots_[operation.slot];
    slot = {serve(operation.group, operation.bytes), operation.bytes};
    if (slot.address == 0) {
      fail(operation, false);
      return false;
    }
    if (sink_ != nullptr) {
      sink_->write(Kind::kAllocate, operation.group, slot.address, slot.bytes,
                   padding(operation.group, slot.bytes));
    }
    return true;
  }

  // 0 when there is no memory.
  arena::Address serve(std::uint32_t group, std::uint64_t bytes) {
    if (PlayedArena* const played = arena_of(group); played != nullptr) {
      if (policy_.free_mode.value == config::FreeMode::kDeferred) {
        played->collect();
      }
      const arena::Address address = played->arena.allocate_without_growth(bytes);
      return address != 0 ? address : take(*played, group, bytes);
    }
    return claim(group, bytes) ? next_beside() : 0;
  }

  arena::Address next_beside() {
    constexpr arena::Address kFirst = arena::Address{1} << 40;  // below all arenas
    beside_count_ = (beside_count_ + 1) % (kFirst / arena::kGranuleBytes);
    return kFirst + beside_count_ * arena::kGranuleBytes;
  }

  std::uint64_t padding(std::uint32_t group, std::uint64_t bytes) const {
    return arenas_[group] == nullptr ? 0 : arena::block_bytes_for(bytes) - bytes;
  }

  void free(const Operation& operation) {
    ++outcome_.operations;
    give(operation.group, slots_[operation.slot]);
  }

  void give(std::uint32_t group, const Slot& slot) {
    PlayedArena* const played = arenas_[group].get();
    if (played == nullptr) {
      unclaim(group, slot.bytes);
    } else if (policy_.free_mode.value == config::FreeMode::kDeferred) {
      played->retire(slot.address, arena::block_bytes_for(slot.bytes),
                     played->device.bytes_ahead());
      return;
    } else {
      played->arena.free(slot.address);
    }
    if (sink_ != nullptr) {
      sink_->write(Kind::kFree, group, slot.address, slot.bytes + padding(group, slot.bytes));
    }
  }

  // What failed when it was recorded; what it gets is free again at once, as nobody knows when it
  // would have been freed.
  void try_again(const Operation& operation) {
    ++outcome_.operations;
    const Slot slot{serve(operation.group, operation.bytes), operation.bytes};
    if (slot.address == 0) {
      fail(operation, true);
      return;
    }
    if (sink_ != nullptr) {
      sink_->write(Kind::kAllocate, operation.group, slot.address, slot.bytes,
                   padding(operation.group, slot.bytes));
    }
    give(operation.group, slot);
  }

  void end(std::uint32_t ended) {
    for (const std::uint32_t group : workload_.contexts[workload_.groups[ended].context]) {
      end_arena(group);
      unclaim(group, beside_[group]);
    }
    if (sink_ != nullptr) {
      sink_->write(Kind::kEndPlace, ended, 0, 0);
    }
  }

  // As Allocations::take() (shim/serve/): from what the arena has; then by growth; then with what
  // can be given back at once; then from regions that are not for it; then with what waits.
  arena::Address take(PlayedArena& played, std::uint32_t group, std::uint64_t bytes) {
    arena::Allocation got = played.arena.allocate(bytes);
    Tries tries{{workload_.groups[group].device, bytes, true, true}};
    tries.growth = got.address == 0 ? played.arena.growth_for(bytes) : 0;
    for (const bool waits : {false, true}) {
      while (got.address == 0 && lacks_memory(got.failure) && make_room(tries, waits)) {
        got = played.arena.allocate(bytes);
      }
      if (got.address == 0 && lacks_memory(got.failure)) {
        got.address = played.arena.allocate_against_the_rule(bytes);
      }
    }
    last_failure_ = got.failure;
    return got.address;
  }

  // Memory that is in no arena.
  bool claim(std::uint32_t group, std::uint64_t bytes) {
    const Memory memory = memory_of(policy_, workload_.groups[group]);
    const bool counted = is_counted(policy_, memory);
    const bool of_device = memory != Memory::kManaged;
    Tries tries{{workload_.groups[group].device, bytes, of_device, counted}};
    SimulatedDevice& device = *devices_[tries.need.device];
    for (;;) {
      if (!counted || device.budget.take(bytes)) {
        if (!of_device || device.take(bytes)) {
          beside_[group] += bytes;
          ++driver_calls_;
          return true;
        }
        device.budget.give(counted ? bytes : 0);
        last_failure_ = arena::Failure::kExhausted;
      } else {
        last_failure_ = arena::Failure::kOverLimit;
      }
      if (!make_room(tries, true)) {
        return false;
      }
    }
  }
  void unclaim(std::uint32_t group, std::uint64_t bytes) {
    const Memory memory = memory_of(policy_, workload_.groups[group]);
    SimulatedDevice& device = *devices_[workload_.groups[group].device];
    device.budget.give(is_counted(policy_, memory) ? bytes : 0);
    device.give(memory != Memory::kManaged ? bytes : 0);
    beside_[group] -= bytes;
    driver_calls_ += bytes > 0 ? 1 : 0;
  }

  struct Need {
    std::uint32_t device;
    std::uint64_t bytes;
    bool of_device;
    bool counted;
  };
  struct Tries {
    Need need;
    std::uint64_t growth = 0;  // what an arena would ask for
    int count = 0;
  };

  // As Search::finds_more() (shim/source/): something has become free.
  bool make_room(Tries& tries, bool waits) {
    const Need& need = tries.need;
    const SimulatedDevice& device = *devices_[need.device];
    const std::uint64_t of_device = need.of_device ? device.free_bytes() : kPlenty;
    const std::uint64_t of_limit = need.counted ? device.budget.left() : kPlenty;
    const std::uint64_t there = std::min(of_device, of_limit);
    std::uint64_t held = 0;
    for (const PlayedArena* const played : arenas_of_device_[need.device]) {
      const arena::Stats stats = played->arena.stats();
      held += stats.free_bytes() + stats.bytes_retired;
    }
    if (tries.count == kMostTries || (there < need.bytes && need.bytes - there > held)) {
      return false;
    }
    const int doublings = std::min(tries.count++, 20);
    const std::uint64_t least = (there < need.bytes ? need.bytes - there : need.bytes) << doublings;
    return give_back(need.device, least + tries.growth - std::min(tries.growth, need.bytes)) ||
           (waits && wait(need.device));
  }

  bool give_back(std::uint32_t device, std::uint64_t bytes) {
    std::uint64_t released = 0;
    for (PlayedArena* const played : arenas_of_device_[device]) {
      released += released < bytes ? played->arena.release_unused(bytes - released) : 0;
    }
    return released > 0;
  }

  bool wait(std::uint32_t device) {
    for (PlayedArena* const played : arenas_of_device_[device]) {
      if (played->wait()) {
        ++outcome_.waits;
        return true;
      }
    }
    return false;
  }

  void fail(const Operation& operation, bool was_recorded) {
    const OutOfMemory failed = describe(operation, was_recorded);
    if (sink_ != nullptr) {
      sink_->write(Kind::kOutOfMemory, operation.group, operation.bytes, 0, 0,
                   "asked for " + std::to_string(failed.asked_bytes) + " bytes; the arena has " +
                       std::to_string(failed.in_use_bytes) + " in use and " +
                       std::to_string(failed.free_bytes) + " free, " +
                       std::to_string(failed.largest_free_bytes) +
                       " of them in one piece; cause: " + failed.cause);
    }
    ++outcome_.failures;
    // That a request fails which has not failed before is what matters more.
    if (outcome_.first.empty() || (outcome_.first[0].was_recorded && !was_recorded)) {
      outcome_.first = {failed};
    }
  }

  OutOfMemory describe(const Operation& operation, bool was_recorded) const {
    const Group& group = workload_.groups[operation.group];
    const SimulatedDevice& device = *devices_[group.device];
    OutOfMemory failed;
    failed.operation = outcome_.operations;
    failed.event = std::uint64_t{operation.event} + 1;
    failed.time_ns = recording_.events[operation.event].time_ns;
    failed.asked_bytes = operation.bytes;
    failed.device = workload_.devices[group.device].number;
    failed.was_recorded = was_recorded;
    if (const PlayedArena* const played = arenas_[operation.group].get(); played != nullptr) {
      const arena::Stats stats = played->arena.stats();
      failed.in_use_bytes = stats.bytes_in_use;
      failed.waiting_bytes = stats.bytes_retired;
      failed.free_bytes = stats.free_bytes();
      failed.largest_free_bytes = stats.largest_free_block_bytes;
    }
    failed.limit_left_bytes = device.budget.limited() ? device.budget.left() : kPlenty;
    failed.device_free_bytes = conditions_.device_is_large_enough ? kPlenty : device.free_bytes();
    failed.cause = cause_of(failed, device);
    return failed;
  }

  // As cause_of() in shim/tell/failure_cause.cpp, of what there can be here.
  std::string cause_of(const OutOfMemory& failed, const SimulatedDevice& device) const {
    if (failed.asked_bytes > device.budget.limit()) {
      return "larger than the limit";
    }
    if (failed.asked_bytes > device.total_bytes) {
      return "larger than the device";
    }
    if (last_failure_ == arena::Failure::kTooLarge) {
      return "larger than any request can be";
    }
    const std::uint64_t beside = std::min(failed.limit_left_bytes, failed.device_free_bytes);
    if (beside >= failed.asked_bytes || beside + failed.free_bytes >= failed.asked_bytes) {
      return "fragmentation: enough is free, not in one piece";
    }
    return failed.limit_left_bytes <= failed.device_free_bytes ? "over the limit"
                                                               : "the device is full";
  }

  void close_trace() {
    if (sink_ != nullptr && !recording_.events.empty()) {
      const std::uint32_t last = done_ == 0 ? 0 : workload_.operations[done_ - 1].event;
      sink_->set_cause(last);
      Event event;
      event.kind = Kind::kClose;
      event.place = kNone;
      event.time_ns = recording_.events[last].time_ns;
      writer_->write(event);
    }
  }

  void sum_up() {
    for (const auto& played : arenas_) {
      outcome_.driver_calls += played == nullptr ? 0 : played->memory.calls();
    }
    outcome_.driver_calls += driver_calls_;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      outcome_.devices.push_back({workload_.devices[i].number, devices_[i]->total_bytes,
                                  total_of(workload_.devices[i], conditions_).origin,
                                  devices_[i]->budget.limit(), devices_[i]->planned_bytes(),
                                  devices_[i]->peak_bytes()});
    }
  }

  const Recording& recording_;
  const Workload& workload_;
  const Conditions& conditions_;
  const config::Policy& policy_;
  recordings::TraceWriter* const writer_;
  std::unique_ptr<Sink> sink_;
  std::vector<std::unique_ptr<SimulatedDevice>> devices_;
  std::vector<std::unique_ptr<PlayedArena>> arenas_;  // of each group that has one now
  std::size_t arena_count_ = 0;
  std::vector<std::vector<PlayedArena*>> arenas_of_device_;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> beside_;  // of each group: bytes that are in no arena
  std::uint64_t beside_count_ = 0;
  std::uint64_t driver_calls_ = 0;  // for what is in no arena
  arena::Failure last_failure_ = arena::Failure::kNone;
  std::size_t done_ = 0;
  Outcome outcome_;
};

}  // namespace

Outcome play(const Recording& recording, const Workload& workload, const Conditions& conditions,
             const Progress& progress, recordings::TraceWriter* trace) {
  return Player(recording, workload, conditions, trace).play(progress);
}

Recording names_of(const Recording& recording, const Workload& workload,
                   const Conditions& conditions, const std::string& settings) {
  Recording names;
  names.start_unix_ns = recording.start_unix_ns;
  names.pid = recording.pid;
  names.command_line = recording.command_line;
  names.settings = settings;
  names.callers = recording.callers;
  names.threads = recording.threads;
  for (const Device& device : workload.devices) {
    const auto recorded =
        std::ranges::find(recording.devices, device.number, &recordings::Device::number);
    recordings::Device named =
        recorded == recording.devices.end() ? recordings::Device{} : *recorded;
    named.number = device.number;
    named.total_bytes = total_bytes_of(device, conditions);
    named.limit_bytes =
        hard_limit_bytes(conditions.policy, named.total_bytes, device.number).value_or(kPlenty);
    names.devices.push_back(std::move(named));
  }
  for (const Group& group : workload.groups) {
    recordings::Place place = group.place;
    place.memory = memory_of(conditions.policy, group);
    names.places.push_back(place);
  }
  return names;
}

}  // namespace cubfc::replay
