#include "shim/process.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <utility>

#include "shim/device/server.h"
#include "shim/environment.h"
#include "shim/hook/runtime_entry_points.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

// cuCtxGetId, by which contexts are told apart, came with 12.0.
constexpr int kOldestDriver = 12000;

std::atomic<Process*> instance{nullptr};
std::atomic<bool> stand_aside{false};

// How far the process's object is.
enum class Making : std::uint8_t { kNot, kNow, kDone };
std::atomic<Making> making{Making::kNot};

// A tool that watches allocations sees overruns of blocks only when each is an allocation of the
// driver's.
const char* watching_tool() {
  for (const char* variable : {"CUDA_INJECTION64_PATH", "NV_SANITIZER_INJECTION_PORT_BASE",
                               "NV_COMPUTE_PROFILER_PERFWORKS_DIR"}) {
    if (std::getenv(variable) != nullptr) {
      return variable;
    }
  }
  return nullptr;
}

config::Policy policy_under_tools(config::Policy policy) {
  const char* tool = watching_tool();
  if (tool != nullptr && !policy.allocator.is_set() &&
      policy.allocator.value != config::Allocator::kPlatform) {
    policy.allocator.value = config::Allocator::kPlatform;
    policy.warnings.push_back(
        std::string(tool) +
        " is set: a tool watches the allocations, so each goes to the driver (CUBFC_ALLOCATOR=bfc "
        "keeps the arena)");
  }
  return policy;
}

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) {
      text += ',';
    }
    text += digits[i];
  }
  return text;
}

std::string counted(std::uint64_t number, const char* what) {
  return grouped(number) + " " + what + (number == 1 ? "" : "s");
}

__attribute__((destructor)) void at_exit() noexcept {
  Process* process = instance.load(std::memory_order_acquire);
  if (process == nullptr || stand_aside.load(std::memory_order_acquire) ||
      process->pid() != getpid()) {
    return;
  }
  process->ipc().leave();
  if (!process->policy().show_stats.value) {
    return;
  }
  try {
    if (const std::string text = process->summary(); !text.empty()) {
      log::always(text);
    }
  } catch (...) {  // the program's exit goes on
  }
}

}  // namespace

Process::Process(const DriverFunctions& driver, config::Policy policy)
    : driver_(driver), policy_(policy_under_tools(std::move(policy))), pid_(getpid()) {}

bool Process::intercepts() noexcept try { return !policy_of_process().disable.value; } catch (...) {
  return false;
}

Process* Process::active() noexcept {
  if (stand_aside.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  if (Process* process = instance.load(std::memory_order_acquire); process != nullptr) {
    return process;
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
  look_for_overrides();
  static std::atomic<bool> watches_forks{false};
  if (!watches_forks.load()) {  // before the object is made; twice does no harm
    pthread_atfork(nullptr, nullptr, &Process::forked_in_child);
    watches_forks.store(true);
  }
  // No lock, which a child could inherit with nobody to let it go; and a thread waits for no more
  // than what is below, where nothing waits for the loader.
  for (Making before = Making::kNot; !making.compare_exchange_strong(before, Making::kNow);
       before = Making::kNot) {
    if (before == Making::kDone) {
      return instance.load(std::memory_order_acquire);
    }
    sched_yield();
  }
  try {
    Process* const process = make_one(*driver);
    instance.store(process, std::memory_order_release);
    making.store(Making::kDone);
    return process;
  } catch (...) {
    making.store(Making::kNot);
    throw;
  }
}

// nullptr where cubfc is to stand aside.
Process* Process::make_one(const Driver& driver) {
  const config::Policy& policy = policy_of_process();
  if (policy.disable.value) {
    stand_aside.store(true);
    return nullptr;
  }
  log::start(policy.log_level.value, policy.log_file.value.value_or(""));
  if (driver.version() < kOldestDriver) {
    log::warn("the driver is CUDA {}.{}, and cubfc needs 12.0: nothing is intercepted",
              driver.version() / 1000, driver.version() % 1000 / 10);
    stand_aside.store(true);
    return nullptr;
  }
  auto* process = new Process(driver.call(), policy);
  for (const std::string& warning : process->policy().warnings) {
    log::write(log::Level::kWarn, warning);
  }
  if (process->policy().limit_unreadable) {
    log::write(log::Level::kError, process->policy().limit_explanation);
  }
  return process;
}

// In the child. Another thread of the parent may have held any of our locks, so the parent's object
// is never touched again. A child of a process that had a context cannot use CUDA (the driver says
// so), and is left to the driver; any other begins anew.
void Process::forked_in_child() noexcept {
  log::forked_in_child();
  const Process* const of_parent = instance.exchange(nullptr);
  making.store(Making::kNot);
  if (of_parent != nullptr && of_parent->contexts_.first() != nullptr) {
    stand_aside.store(true);
  }
}

std::string Process::summary() const {
  struct Line {
    const Device* device = nullptr;
    arena::Stats stats;
    std::uint64_t driver_calls = 0;
  };
  std::vector<Line> lines;
  std::uint64_t operations = 0;
  for (const Context* context = contexts_.first(); context != nullptr; context = context->next) {
    Line* line = nullptr;
    for (Line& known : lines) {
      line = known.device == &context->device ? &known : line;
    }
    if (line == nullptr) {
      line = &lines.emplace_back();
      line->device = &context->device;
    }
    const arena::Stats stats = context->arena.stats();
    line->stats.num_allocs += stats.num_allocs;
    line->stats.num_failures += stats.num_failures;
    line->stats.peak_bytes_in_use += stats.peak_bytes_in_use;
    line->stats.peak_pool_bytes += stats.peak_pool_bytes;
    line->driver_calls += context->memory->driver_calls();
    operations += stats.num_allocs;
  }
  for (const Line& line : lines) {
    operations += line.device->server->stats().value_or(Server::Stats{}).num_allocs;
  }
  const Ledger<CUdeviceptr>::Totals direct = memory_.ledger().totals();
  operations += direct.allocations;
  const double each_us = operations == 0 ? 0
                                         : static_cast<double>(memory_.time_spent().count()) /
                                               1000.0 / static_cast<double>(operations);
  std::string text;
  for (const Line& line : lines) {
    if (const auto beside = line.device->server->stats()) {
      const Server::Stats& stats = *beside;
      text += format(
          "{}GPU {}: peak {} from the pool, {}, {:.1f} µs each with the program's waits, {} failed",
          text.empty() ? "" : "\ncubfc: ", line.device->handle, log::bytes(stats.peak_bytes_in_use),
          counted(stats.num_allocs, "allocation"), each_us, grouped(stats.num_failures));
    }
    if (line.stats.num_allocs + line.stats.num_failures == 0) {
      continue;
    }
    text += format(
        "{}GPU {}: peak {} of {}, {} in {}, {:.1f} µs each with the "
        "program's waits, {} failed",
        text.empty() ? "" : "\ncubfc: ", line.device->handle,
        log::bytes(line.stats.peak_bytes_in_use), log::bytes(line.stats.peak_pool_bytes),
        counted(line.stats.num_allocs, "allocation"), counted(line.driver_calls, "driver call"),
        each_us, grouped(line.stats.num_failures));
  }
  if (direct.allocations + direct.failures > 0) {
    text += format(
        "{}straight to the driver: peak {}, {}, {:.1f} µs each with the program's "
        "waits, {} failed",
        text.empty() ? "" : "\ncubfc: ", log::bytes(direct.peak_bytes),
        counted(direct.allocations, "allocation"), each_us, grouped(direct.failures));
  }
  // Worth a word when it is true.
  if (memory_.time_waited() >= std::chrono::seconds(1)) {
    text += format(
        "{}frees waited {:.0f} s for the device; CUBFC_FREE=deferred avoids that if the program "
        "does not use "
        "cudaFree as a barrier",
        text.empty() ? "" : "\ncubfc: ",
        std::chrono::duration<double>(memory_.time_waited()).count());
  }
  return text;
}

}  // namespace cubfc
