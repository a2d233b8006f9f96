#include "shim/process.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <utility>

#include "config/options.h"

#include "shim/ask/arrays.h"
#include "shim/ask/memory_info.h"
#include "shim/ask/peer_copies.h"
#include "shim/ask/physical_memory.h"
#include "shim/ask/pointer_queries.h"
#include "shim/background/background.h"
#include "shim/background/map_drawer.h"
#include "shim/background/sleep_control.h"
#include "shim/background/soft_reserve.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/driver/captures.h"
#include "shim/environment.h"
#include "shim/exit.h"
#include "shim/loader/symbols.h"
#include "shim/meet/locked_mapping.h"
#include "shim/meet/rendezvous.h"
#include "shim/old_driver.h"
#include "shim/record/trace_recorder.h"
#include "shim/serve/allocations.h"
#include "shim/serve/driver_requests.h"
#include "shim/serve/failed_requests.h"
#include "shim/serve/frees.h"
#include "shim/serve/graph_memory.h"
#include "shim/serve/stream_ordered.h"
#include "shim/serve/time_in_calls.h"
#include "shim/servers/servers.h"
#include "shim/share/figures_page.h"
#include "shim/share/ipc.h"
#include "shim/sleep/linked.h"
#include "shim/sleep/sleeper.h"
#include "shim/source/memory_sources.h"
#include "shim/source/unused_memory.h"
#include "shim/tell/log.h"
#include "shim/tell/program.h"
#include "shim/tell/summary_file.h"
#include "shim/wait/waiting_frees.h"

namespace cubfc {

namespace {

// Begins the recording that CUBFC_TRACE asks for, and gives it the settings in force as text.
// nullptr without CUBFC_TRACE, or if no file can be made.
std::unique_ptr<TraceRecorder> recorder_for(const config::Policy& policy) try {
  if (!policy.trace.value) {
    return nullptr;
  }
  std::string settings;
  for (const config::Option& option : config::options()) {
    settings += std::string(option.own.name) + "=" + config::in_force(option, policy) + "\n";
  }
  return TraceRecorder::open({expanded_path(*policy.trace.value), policy.trace_limit.value,
                              static_cast<std::uint32_t>(policy.trace_stacks.value),
                              policy.trace_tensors.value, settings});
} catch (const std::bad_alloc&) {
  log::warn("CUBFC_TRACE: the host has no memory for a recording; nothing is recorded");
  return nullptr;
}

}  // namespace

// The objects that act, in the order in which they are made: each is passed only those that are
// declared before it.
struct Process::Parts {
  Parts(const DriverFunctions& driver, const config::Policy& policy)
      : summary_path(policy.summary.value ? absolute_path(expanded_path(*policy.summary.value))
                                          : ""),
        figures(policy, {run_of_process(), is_forked_process()}),
        trace(recorder_for(policy)),
        callers(figures.get(), trace.get(), policy.track_callers.value),
        captures(driver),
        devices(driver, policy, &choose_server, {figures.get(), callers, trace.get()}),
        contexts(driver, devices, captures),
        ipc(driver, policy, contexts),
        waiting(driver, contexts, captures),
        unused(driver, contexts, captures, waiting),
        sources(contexts, unused, rendezvous),
        sleeper(driver, policy, can_sleep(), {contexts, captures, waiting, unused, sources}),
        map(contexts),
        soft_reserve(rendezvous, unused, map),
        failed(driver, policy, contexts),
        idle_trimmer(policy.trim_after.value,
                     {[this] { return unused.trim(false); }, [this] { return operations(); }}),
        time_in_calls(policy),
        summary(policy.summary.value.has_value(),
                {[this] { keep_summary(); }, [this] { return operations(); }}),
        sleep_control(sleeper, policy.sleep_after.value),
        background(idle_trimmer, summary, sleep_control),
        requests(driver, contexts, sources, failed, soft_reserve, background),
        allocations(driver, policy,
                    {callers, contexts, captures, sources, failed, requests, soft_reserve, map,
                     background, time_in_calls}),
        frees(driver, policy, {contexts, ipc, waiting, requests, time_in_calls}),
        graph_memory(driver, policy, contexts, sources, failed),
        stream_ordered(driver,
                       {contexts, captures, waiting, sources, requests, allocations, frees}),
        info(driver, policy, contexts, rendezvous),
        physical(driver, contexts, requests),
        arrays(driver, contexts, requests),
        pointers(driver, policy, contexts, ipc),
        peer_copies(driver, contexts) {}

  // Called by SummaryKeeper while the program runs.
  void keep_summary() noexcept {
    map.refresh_figures();
    write_summary(summary_path, {figures.get(), time_in_calls.spent(), /*is_end=*/false});
  }

  // A number that changes with each allocation, each failure in an arena and each free.
  std::uint64_t operations() const noexcept {
    const Ledger<CUdeviceptr>::Totals at_driver = requests.ledger().totals();
    std::uint64_t operations = at_driver.allocations + at_driver.frees;
    for (const Context* context = contexts.first(); context != nullptr; context = context->next) {
      const arena::Stats stats = context->arena.stats();
      operations += stats.num_allocs + stats.num_frees + stats.num_failures;
    }
    devices.for_each([&](const Device& device) { operations += device.server->operations(); });
    return operations;
  }

  const std::string summary_path;  // empty: none is wanted
  FiguresPage figures;
  std::unique_ptr<TraceRecorder> trace;
  Callers callers;
  Captures captures;
  Devices devices;
  Contexts contexts;
  Ipc ipc;
  WaitingFrees waiting;
  Rendezvous rendezvous;
  UnusedMemory unused;
  MemorySources sources;
  Sleeper sleeper;
  MapDrawer map;
  SoftReserve soft_reserve;
  FailedRequests failed;
  IdleTrimmer idle_trimmer;
  TimeInCalls time_in_calls;
  SummaryKeeper summary;
  SleepControl sleep_control;
  Background background;
  DriverRequests requests;
  Allocations allocations;
  Frees frees;
  GraphMemory graph_memory;
  StreamOrdered stream_ordered;
  MemoryInfo info;
  PhysicalMemory physical;
  Arrays arrays;
  PointerQueries pointers;
  PeerCopies peer_copies;
};

namespace {

std::atomic<bool> stand_aside{false};
std::atomic<bool> refuse_memory{false};  // only together with stand_aside

// Whether the Process is not made, being made at this moment, or made.
enum class Making : std::uint8_t { kNot, kNow, kDone };
std::atomic<Making> making{Making::kNot};

config::Policy adjusted_policy(config::Policy policy) {
  const char* tool = watching_tool();
  if (tool != nullptr && !policy.allocator.is_set() &&
      policy.allocator.value != config::Allocator::kPlatform) {
    policy.allocator.value = config::Allocator::kPlatform;
    policy.warnings.push_back(
        std::string(tool) +
        " is set: a tool watches the allocations, so each goes to the driver (CUBFC_ALLOCATOR=bfc "
        "keeps the arena)");
  }
  if (policy.sleep.value && !is_sleep_library()) {
    policy.warnings.push_back(policy.sleep.origin.text() +
                              " is without effect in libcubfc.so: preload libcubfc_sleep.so in its "
                              "place, as `cubfc run --sleep` does");
  }
  return policy;
}

}  // namespace

Process::Process(const DriverFunctions& driver, config::Policy policy,
                 const RuntimeOverrides& overridden)
    : driver_(driver),
      policy_(adjusted_policy(std::move(policy))),
      // A cudaMalloc that the runtime passes on reaches a gate.
      overridden_(can_sleep() ? RuntimeOverrides{true, true} : overridden),
      parts_(std::make_unique<Parts>(driver_, policy_)),
      allocations_(parts_->allocations),
      frees_(parts_->frees),
      contexts_(parts_->contexts) {}

Process::~Process() = default;

std::chrono::nanoseconds Process::time_in_calls() const {
  return parts_->time_in_calls.spent();
}
Captures& Process::captures() const {
  return parts_->captures;
}
Ipc& Process::ipc() const {
  return parts_->ipc;
}
WaitingFrees& Process::waiting() const {
  return parts_->waiting;
}
FailedRequests& Process::failed_requests() const {
  return parts_->failed;
}

SoftReserve& Process::soft_reserve() const {
  return parts_->soft_reserve;
}
Sleeper& Process::sleeper() const {
  return parts_->sleeper;
}
const MemorySources& Process::sources() const {
  return parts_->sources;
}

UnusedMemory& Process::unused() const {
  return parts_->unused;
}
DriverRequests& Process::requests() const {
  return parts_->requests;
}
StreamOrdered& Process::stream_ordered() const {
  return parts_->stream_ordered;
}
GraphMemory& Process::graph_memory() const {
  return parts_->graph_memory;
}
MemoryInfo& Process::info() const {
  return parts_->info;
}
PhysicalMemory& Process::physical() const {
  return parts_->physical;
}
Arrays& Process::arrays() const {
  return parts_->arrays;
}
const figures::ProcessFigures& Process::figures() const {
  return parts_->figures.get();
}
void Process::refresh_figures() const noexcept {
  parts_->map.refresh_figures();
}
const std::string& Process::summary_path() const noexcept {
  return parts_->summary_path;
}
TraceRecorder* Process::trace() const noexcept {
  return parts_->trace.get();
}
void Process::leave_files() const noexcept {
  parts_->figures.leave();
  parts_->sleep_control.leave();
}
PointerQueries& Process::pointers() const {
  return parts_->pointers;
}
PeerCopies& Process::peer_copies() const {
  return parts_->peer_copies;
}

bool Process::stands_aside() noexcept {
  return stand_aside.load();
}

bool Process::refuses_memory() noexcept {
  return refuse_memory.load(std::memory_order_relaxed);
}

bool Process::intercepts() noexcept try { return !policy_of_process().disable.value; } catch (...) {
  return false;
}

bool Process::can_sleep() noexcept try {
  const config::Policy& policy = policy_of_process();
  return is_sleep_library() && policy.sleep.value && !policy.disable.value;
} catch (...) {
  return false;
}

// Once the Process is made, its parts go by the policy, which must not change any more. So this
// keeps other threads from making the Process until the limit is set.
int Process::set_limit(const char* limit) noexcept try {
  if (limit == nullptr) {
    return EINVAL;
  }
  if (stand_aside.load(std::memory_order_relaxed) || !intercepts()) {
    return ENOTSUP;
  }
  for (Making before = Making::kNot; !making.compare_exchange_strong(before, Making::kNow);
       before = Making::kNot) {
    if (before == Making::kDone) {
      return EBUSY;
    }
    sched_yield();
  }
  int error = ENOMEM;
  try {
    error = set_limit_of_process(limit) ? 0 : EINVAL;
  } catch (const std::bad_alloc&) {
    // Nothing has changed.
  }
  making.store(Making::kNot);
  return error;
} catch (...) {
  return ENOMEM;
}

Process* Process::make_active() noexcept {
  if (stand_aside.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  try {
    return make();
  } catch (...) {
    return nullptr;
  }
}

Process* Process::make() {
  const Driver* driver = Driver::find();
  if (driver == nullptr) {
    return nullptr;
  }
  const RuntimeOverrides overridden{is_overridden_behind_us("cudaMalloc"),
                                    is_overridden_behind_us("cudaFree")};
  static std::atomic<bool> watches_forks{false};
  if (!watches_forks.load()) {  // before the Process is made; twice does no harm
    pthread_atfork(nullptr, nullptr, &Process::forked_in_child);
    watches_forks.store(true);
  }
  // There is no lock, which a child might inherit locked; forked_in_child() sets `making` back. A
  // thread that waits here waits only for the lines below, and these do not wait for the dynamic
  // loader's lock.
  for (Making before = Making::kNot; !making.compare_exchange_strong(before, Making::kNow);
       before = Making::kNot) {
    if (before == Making::kDone) {
      return existing();
    }
    sched_yield();
  }
  try {
    Process* const process = make_one(*driver, overridden);
    instance_.store(process, std::memory_order_release);
    making.store(Making::kDone);
    return process;
  } catch (...) {
    making.store(Making::kNot);
    throw;
  }
}

// Returns nullptr if cubfc must stand aside in this process.
Process* Process::make_one(const Driver& driver, const RuntimeOverrides& overridden) {
  const config::Policy& policy = policy_of_process();
  if (policy.disable.value) {
    stand_aside.store(true);
    return nullptr;
  }
  log::start(policy.log_level.value, policy.log_file.value.value_or(""));
  if (is_too_old(driver.version())) {
    refuse_memory.store(tell_of_old_driver(driver.version(), policy) == WithOldDriver::kNoMemory);
    stand_aside.store(true);
    return nullptr;
  }
  auto* process = new Process(driver.call(), policy, overridden);
  finish_at_exit();
  for (const std::string& warning : process->policy().warnings) {
    log::write(log::Level::kWarn, warning);
  }
  for (const std::string& note : process->policy().notes) {
    log::write(log::Level::kInfo, note);
  }
  if (process->policy().limit_unusable) {
    log::write(log::Level::kError, process->policy().limit_explanation);
  }
  return process;
}

// Called in a forked child. Another thread of the parent may have held any of our locks, so the
// parent's Process is not used again, except for its list of contexts, which needs no lock. A child
// of a process that had a context cannot use CUDA (the driver says so): its calls go straight to
// the driver. Any other child makes a Process of its own.
void Process::forked_in_child() noexcept {
  log::forked_in_child();
  locked_mappings_forked_in_child();
  const Process* const of_parent = instance_.exchange(nullptr);
  making.store(Making::kNot);
  if (of_parent != nullptr && of_parent->contexts_.first() != nullptr) {
    stand_aside.store(true);
  }
}

}  // namespace cubfc
