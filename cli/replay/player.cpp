#include "cli/replay/player.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "cli/replay/played_memory.h"
#include "cli/replay/played_trace.h"

namespace cubfc::replay {
namespace {

using recordings::Recording;

// Plays the operations of a workload one after the other, and keeps the outcome.
class Player {
 public:
  Player(const Recording& recording, const Workload& workload, const Conditions& conditions,
         recordings::TraceWriter* writer)
      : recording_(recording),
        workload_(workload),
        conditions_(conditions),
        trace_(recording, writer),
        memory_(workload, conditions, trace_),
        slots_(workload.slots) {}

  Outcome play(const Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    play_all(progress);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    outcome_.seconds = seconds.count();
    trace_.end();
    sum_up();
    return std::move(outcome_);
  }

 private:
  struct Slot {
    arena::Address address = 0;
    std::uint64_t bytes = 0;
  };

  void play_all(const Progress& progress) {
    // The operations between two calls of `progress`.
    constexpr std::size_t kStep = std::size_t{1} << 16;
    const std::vector<Operation>& all = workload_.operations;
    std::size_t done = 0;
    bool goes_on = true;
    while (goes_on && done < all.size()) {
      const std::size_t until = std::min(all.size(), done + kStep);
      while (goes_on && done < until) {
        goes_on = obey(all[done++]);
      }
      if (progress) {
        progress(static_cast<double>(done) / static_cast<double>(all.size()));
      }
    }
  }

  // Plays one operation. False if it is a request that got memory in the recording and gets none
  // here: the play ends then.
  bool obey(const Operation& operation) {
    trace_.set_cause(operation.event);
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
        memory_.end_context_of(operation.group);
        return true;
      case Operation::Kind::kCopy:
        trace_.write_cause();
        return true;
    }
    return true;
  }

  bool allocate(const Operation& operation) {
    ++outcome_.operations;
    Slot& slot = slots_[operation.slot];
    slot = {memory_.allocate(operation.group, operation.bytes), operation.bytes};
    if (slot.address == 0) {
      fail(operation, false);
      return false;
    }
    return true;
  }

  void free(const Operation& operation) {
    ++outcome_.operations;
    const Slot& slot = slots_[operation.slot];
    memory_.free(operation.group, slot.address, slot.bytes);
  }

  // Plays a request that failed in the recording. If it gets memory here, frees it at once: the
  // recording does not say when the program would have freed it.
  void try_again(const Operation& operation) {
    ++outcome_.operations;
    const arena::Address address = memory_.allocate(operation.group, operation.bytes);
    if (address == 0) {
      fail(operation, true);
      return;
    }
    memory_.free(operation.group, address, operation.bytes);
  }

  void fail(const Operation& operation, bool was_recorded) {
    OutOfMemory failed = memory_.describe_failure(operation.group, operation.bytes);
    failed.operation = outcome_.operations;
    failed.event = recording_.number_of(operation.event);
    failed.time_ns = recording_.events[operation.event].time_ns;
    failed.was_recorded = was_recorded;
    if (trace_.is_wanted()) {
      trace_.write(trace::Kind::kOutOfMemory, operation.group, operation.bytes, 0, 0,
                   text_of(failed));
    }
    ++outcome_.failures;
    // A request that fails only here is described rather than one that failed in the recording,
    // too.
    if (outcome_.first.empty() || (outcome_.first[0].was_recorded && !was_recorded)) {
      outcome_.first = {failed};
    }
  }

  void sum_up() {
    outcome_.driver_calls = memory_.driver_calls();
    outcome_.waits = memory_.waits();
    for (std::size_t i = 0; i < workload_.devices.size(); ++i) {
      const SimulatedDevice& device = *memory_.devices()[i];
      outcome_.devices.push_back({workload_.devices[i].number, device.total_bytes,
                                  origin_of_total(workload_.devices[i], conditions_),
                                  device.budget.limit(), device.planned_bytes(),
                                  device.peak_bytes()});
    }
  }

  const Recording& recording_;
  const Workload& workload_;
  const Conditions& conditions_;
  PlayedTrace trace_;
  PlayedMemory memory_;
  std::vector<Slot> slots_;
  Outcome outcome_;
};

}  // namespace

Outcome play(const Recording& recording, const Workload& workload, const Conditions& conditions,
             const Progress& progress, recordings::TraceWriter* trace) {
  return Player(recording, workload, conditions, trace).play(progress);
}

}  // namespace cubfc::replay
