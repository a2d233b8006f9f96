#include "shim/serve/device_memory.h"

#include <bit>
#include <limits>

#include "arena/epoch.h"
#include "shim/background/map_drawer.h"
#include "shim/background/soft_reserve.h"
#include "shim/device/blocks.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/driver/captures.h"
#include "shim/limit/callers.h"
#include "shim/serve/announcement.h"
#include "shim/serve/driver_requests.h"
#include "shim/serve/failed_requests.h"
#include "shim/share/ipc.h"
#include "shim/source/memory_sources.h"
#include "shim/source/unused_memory.h"
#include "shim/tell/log.h"
#include "shim/wait/waiting_frees.h"

namespace cubfc {

namespace {

bool lacks_memory(arena::Failure failure) {
  return failure != arena::Failure::kSourceError && failure != arena::Failure::kTooLarge;
}

}  // namespace

class DeviceMemory::Stopwatch {
 public:
  explicit Stopwatch(DeviceMemory& memory)
      : memory_(memory), running_(memory.policy_.show_stats.value) {
    if (running_) {
      start_ = std::chrono::steady_clock::now();
    }
  }
  ~Stopwatch() {
    if (running_) {
      const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - start_;
      memory_.spent_ns_.fetch_add(static_cast<std::uint64_t>(spent.count()),
                                  std::memory_order_relaxed);
    }
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  DeviceMemory& memory_;
  const bool running_;
  std::chrono::steady_clock::time_point start_;
};

DeviceMemory::DeviceMemory(const DriverFunctions& driver, const config::Policy& policy,
                           const Uses& uses)
    : driver_(driver),
      policy_(policy),
      callers_(uses.callers),
      contexts_(uses.contexts),
      captures_(uses.captures),
      ipc_(uses.ipc),
      waiting_(uses.waiting),
      unused_(uses.unused),
      sources_(uses.sources),
      failed_(uses.failed),
      requests_(uses.requests),
      soft_reserve_(uses.soft_reserve),
      map_(uses.map),
      most_at_hand_(policy.show_stats.value || policy.trace_stacks.value > 0 ||
                            log::enabled(log::Level::kTrace)
                        ? 0
                        : most_shared()),
      frees_at_hand_(most_at_hand_ > 0 && deferred()),
      times_frees_(policy.observes()),
      idle_trimmer_(policy.trim_after.value,
                    {[this] { return unused_.trim(false); }, [this] { return operations(); }}) {}

std::uint64_t DeviceMemory::most_shared() const {
  return policy_.ipc.value == config::Ipc::kDriver ? kSmallestDriverShared - 1
                                                   : std::numeric_limits<std::uint64_t>::max();
}

arena::Caller DeviceMemory::asking() const {
  return callers_.asking();
}

void DeviceMemory::served_again(Context& context, std::size_t bytes) {
  failed_.served(context, bytes);
}

Server::By DeviceMemory::served_by(const Device& device, std::size_t bytes) const {
  return bytes > most_shared() ? Server::By::kDriver : device.server->by;
}

CUdeviceptr DeviceMemory::take_at_hand(std::size_t bytes, const void* asking) {
  Context* const context = bytes - 1 < most_at_hand_ ? contexts_.current_if_remembered() : nullptr;
  if (context == nullptr) [[unlikely]] {
    return 0;
  }
  const std::uint8_t state = context->state.load(std::memory_order_acquire);
  if (state == (Context::kStarted | Context::kObserved)) [[likely]] {
    return context->arena.allocate_without_growth(bytes, callers_.find(asking));
  }
  return state == Context::kStarted ? context->arena.allocate_without_growth(bytes) : 0;
}

arena::Arena::Gathered DeviceMemory::free_at_hand(CUdeviceptr address) {
  Context* const context = frees_at_hand_ ? contexts_.current_if_remembered() : nullptr;
  DeviceFrees* const frees = context != nullptr && context->is_plain() && !ipc_.any_exports()
                                 ? WaitingFrees::known_of(context->device)
                                 : nullptr;
  return frees != nullptr ? frees->gather(*context, address) : arena::Arena::Gathered::kNot;
}

CUresult DeviceMemory::allocate(CUdeviceptr* address, std::size_t bytes) {
  const Stopwatch stopwatch(*this);
  // What is wrong with these the driver says best.
  Context* const context =
      address == nullptr || bytes == 0 ? nullptr : contexts_.current_to_allocate();
  if (context == nullptr) {
    return without_context(address, bytes);
  }
  idle_trimmer_.start_once();
  return serve(*context, address, bytes, "cuMemAlloc");
}

// While a stream captures, nothing may wait, and so nothing that is freed comes back: what idle
// memory cannot serve then is an allocation of the driver's own, whose free is the driver's, too.
CUresult DeviceMemory::serve(Context& context, CUdeviceptr* address, std::size_t bytes,
                             const char* function) {
  const Server::By by = served_by(context.device, bytes);
  if (by == Server::By::kDriver || context.is_broken(driver_)) {
    return allocate_from_driver(context, address, bytes, function);
  }
  if (captures_.any_open()) {
    collect_waiting(context);
    if (by == Server::By::kPool && bytes <= context.headroom().free &&
        allocate_from_pool(context, address, bytes, function) == CUDA_SUCCESS) {
      return CUDA_SUCCESS;
    }
    *address =
        by == Server::By::kArena ? context.arena.allocate_without_growth(bytes, asking()) : 0;
    if (*address == 0) {
      const RelaxedCapture relaxed(driver_);
      return allocate_from_driver(context, address, bytes, function, Mode::kRelaxed);
    }
    failed_.served(context, bytes);
    log::trace("{} {} bytes -> {:#x}", function, bytes, *address);
    return CUDA_SUCCESS;
  }
  return by == Server::By::kArena
             ? allocate_from_arena(context, address, {bytes, asking()}, function)
             : allocate_from_pool(context, address, bytes, function);
}

// The driver's answer to a request that no context's arena can serve. But a limit is not got round
// by a context that the driver, for a moment, cannot tell us of.
CUresult DeviceMemory::without_context(CUdeviceptr* address, std::size_t bytes) {
  CUcontext current = nullptr;
  unsigned long long id = 0;
  const bool limited = policy_.limits();
  if (limited && address != nullptr && bytes > 0 &&
      driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) {
    if (const CUresult broken = driver_.cuCtxGetId(current, &id); broken != CUDA_SUCCESS) {
      return broken;  // a context that was destroyed, for example
    }
    log::warn("the driver does not say what its current context is; refused: {} bytes", bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return driver_.cuMemAlloc_v2(address, bytes);
}

// Makes free what work is done with by now. Does not wait.
void DeviceMemory::collect_waiting(const Context& context) {
  if (DeviceFrees* const frees = WaitingFrees::known_of(context.device);
      frees != nullptr && frees->any()) {
    frees->collect();
  }
}

// From what the arena has; then by growth; then with what can be given back at once; then from
// regions that are not for it; then by whatever is left to try, which may wait.
arena::Allocation DeviceMemory::take(Context& context, const Wanted& wanted) {
  collect_waiting(context);
  const std::uint64_t bytes = wanted.bytes;
  Search search(sources_, context.device, {.bytes = bytes, .counted = true, .from_blocks = true});
  const auto allocate = [&] {
    const SoftReserve::Taking taking(context.device);
    return context.arena.allocate(bytes, wanted.caller);
  };
  arena::Allocation got = allocate();
  if (got.address == 0) {
    search.growth_is(context.arena.growth_for(bytes));
  }
  for (const auto waits : {Search::Waits::kNo, Search::Waits::kYes}) {
    while (got.address == 0 && lacks_memory(got.failure) && search.finds_more(waits)) {
      const bool grew = got.grew;
      got = allocate();
      got.grew = got.grew || grew;
    }
    if (got.address == 0 && lacks_memory(got.failure)) {
      got.address = context.arena.allocate_against_the_rule(bytes, wanted.caller);
    }
  }
  return got;
}

CUresult DeviceMemory::allocate_from_arena(Context& context, CUdeviceptr* address,
                                           const Wanted& wanted, const char* function) {
  const std::uint64_t bytes = wanted.bytes;
  soft_reserve_.offer(context.device);  // before anything is taken that others may lack
  map_.draw_wanted();
  const arena::Allocation got = take(context, wanted);
  if (got.grew) {
    announce(driver_, policy_, context);
  }
  if (got.address == 0) {
    context.arena.count_failure();
    log::debug("{} of {} bytes failed: {}", function, bytes, arena::describe(got.failure));
    if (got.failure == arena::Failure::kSourceError) {
      context.note(static_cast<CUresult>(got.source_error));
      return static_cast<CUresult>(got.source_error);
    }
    failed_.report({context.device, bytes, function}, got.failure, &context);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = got.address;
  failed_.served(context, bytes);
  log::trace("{} {} bytes -> {:#x}", function, bytes, got.address);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::allocate_from_pool(Context& context, CUdeviceptr* address, std::size_t bytes,
                                          const char* function) {
  announce(driver_, policy_, context);
  soft_reserve_.offer(context.device);
  collect_waiting(context);
  Server& server = *context.device.server;
  const auto prepare = [&] {
    const SoftReserve::Taking taking(context.device);
    return server.prepare(context);
  };
  if (const CUresult result = prepare(); result != CUDA_SUCCESS) {
    context.note(result);
    return result;
  }
  CUdeviceptr got = 0;
  std::optional<Claim> claim;
  if (const CUresult result = requests_.claim_and_call(
          {context.device, Memory::kOwnPool, bytes, function, server.pool()}, claim,
          [&] {
            const SoftReserve::Taking taking(context.device);
            return server.obtain(context, &got, bytes);
          },
          [&] { server.undo(got); });
      result != CUDA_SUCCESS) {
    context.note(result);
    return result;
  }
  try {
    server.enter(context, got, std::move(*claim));
  } catch (const std::bad_alloc&) {
    server.undo(got);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = got;
  log::trace("{} {} bytes -> {:#x} (pool)", function, bytes, got);
  return CUDA_SUCCESS;
}

CUresult DeviceMemory::allocate_from_driver(Context& context, CUdeviceptr* address,
                                            std::size_t bytes, const char* function, Mode mode) {
  if (context.device.server->by == Server::By::kDriver) {
    announce(driver_, policy_, context);
  }
  return requests_.allocate(
      context, {context.device, Memory::kDirect, bytes, function, nullptr, mode == Mode::kRelaxed},
      address, [&](CUdeviceptr* got) { return driver_.cuMemAlloc_v2(got, bytes); },
      [&](CUdeviceptr got) { free_relaxed(got); });
}

CUresult DeviceMemory::allocate_managed(CUdeviceptr* address, std::size_t bytes, unsigned flags) {
  Context* const context =
      address == nullptr || bytes == 0 ? nullptr : contexts_.current_to_allocate();
  const auto call = [&](CUdeviceptr* got) { return driver_.cuMemAllocManaged(got, bytes, flags); };
  if (context == nullptr) {
    return call(address);
  }
  sources_.give_up_preallocated(context->device, bytes);  // else it would lie on the host
  return requests_.allocate(*context,
                            {context->device, Memory::kManaged, bytes, "cuMemAllocManaged"},
                            address, call, [&](CUdeviceptr got) { free_relaxed(got); });
}

// What the program has not been given.
void DeviceMemory::free_relaxed(CUdeviceptr address) const {
  const RelaxedCapture relaxed(driver_);
  driver_.cuMemFree_v2(address);
}

CUresult DeviceMemory::allocate_pitch(CUdeviceptr* address, std::size_t* pitch, std::size_t width,
                                      std::size_t height, unsigned element_bytes) {
  const Stopwatch stopwatch(*this);
  const bool plain = address != nullptr && pitch != nullptr && width > 0 && height > 0;
  Context* const context = plain ? contexts_.current_to_allocate() : nullptr;
  const std::size_t alignment =
      context == nullptr ? 0 : pitch_alignment(context->device, element_bytes);
  int widest = 0;
  if (alignment == 0 ||
      driver_.cuDeviceGetAttribute(&widest, CU_DEVICE_ATTRIBUTE_MAX_PITCH,
                                   context->device.handle) != CUDA_SUCCESS ||
      width > static_cast<std::size_t>(widest)) {
    return driver_.cuMemAllocPitch_v2(address, pitch, width, height, element_bytes);
  }
  const std::size_t row_bytes = arena::round_up(width, alignment);
  const bool overflows = height > std::numeric_limits<std::size_t>::max() / row_bytes;
  const std::size_t bytes =
      overflows ? std::numeric_limits<std::size_t>::max() : row_bytes * height;
  const CUresult result = serve(*context, address, bytes, "cuMemAllocPitch");
  if (result == CUDA_SUCCESS) {
    *pitch = row_bytes;
  }
  return result;
}

// The driver's own rule, learnt once for each element size by asking for a row of one byte. 0: not
// a size that the driver takes.
std::size_t DeviceMemory::pitch_alignment(Device& device, unsigned element_bytes) {
  // cuda.h, cuMemAllocPitch: the element size must be 4, 8 or 16.
  if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) {
    return 0;
  }
  std::atomic<std::size_t>& known =
      device.pitch_alignment[static_cast<unsigned>(std::countr_zero(element_bytes))];
  std::size_t alignment = known.load(std::memory_order_relaxed);
  if (alignment == 0) {
    const RelaxedCapture relaxed(driver_);
    CUdeviceptr sample = 0;
    if (sources_.call_with_room(device.handle, [&] {
          return driver_.cuMemAllocPitch_v2(&sample, &alignment, 1, 1, element_bytes);
        }) != CUDA_SUCCESS) {
      return 0;
    }
    free_relaxed(sample);
    known.store(alignment, std::memory_order_relaxed);
  }
  return alignment;
}

// Mostly it lies in the arena of the current context: whoever that is, by its id, no other's can
// lie there.
inline DeviceMemory::Freed DeviceMemory::find_freed(CUdeviceptr address) {
  Context* const current = contexts_.current();
  const bool is_owner =
      current != nullptr && current->is_plain() && current->arena.region_at(address) != 0;
  return {is_owner ? current : contexts_.owner_of(address), current};
}

// What lies in the owner's arena, or is a block that it has from the pool.
CUresult DeviceMemory::free_of(const Freed& freed, CUdeviceptr address) {
  CUcontext current = nullptr;
  const bool has_context =
      freed.current != nullptr ||
      (driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr);
  CUresult result = refused_by_driver(*freed.owner, address, has_context);
  if (result == CUDA_SUCCESS) {
    result = free_block(freed, address);
    if (log::enabled(log::Level::kTrace)) [[unlikely]] {
      log::trace("cuMemFree {:#x}: {}", address, name_of(driver_, result));
    }
  }
  return result;
}

void DeviceMemory::tidy_frees() noexcept {
  contexts_.devices().for_each([](const Device& device) {
    if (DeviceFrees* const frees = WaitingFrees::known_of(device); frees != nullptr) {
      frees->close_when_due();
    }
  });
}

CUresult DeviceMemory::free(CUdeviceptr address) {
  const Stopwatch stopwatch(*this);
  const Freed freed = find_freed(address);
  return freed.owner == nullptr
             ? requests_.free(address, [&] { return driver_.cuMemFree_v2(address); })
             : free_of(freed, address);
}

bool DeviceMemory::try_free(CUdeviceptr address) {
  const Stopwatch stopwatch(*this);
  const Freed freed = find_freed(address);
  return freed.owner != nullptr && free_of(freed, address) == CUDA_SUCCESS;
}

// Its word is had by asking it to free a pointer into a region, which it can only refuse, or to
// nowhere. A block may begin where its region does.
CUresult DeviceMemory::refused_by_driver(const Context& owner, CUdeviceptr address,
                                         bool has_context) const {
  if (has_context && !owner.has(Context::kBroken)) [[likely]] {
    return CUDA_SUCCESS;
  }
  const CUresult result = driver_.cuMemFree_v2(
      owner.device.server->has_blocks_beside_arenas() ? kNowhere : address + 1);
  return result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;
}

// Waits for the device, then frees; or leaves the waiting to DeviceFrees: always under
// CUBFC_FREE=deferred, else while a stream captures or a context may be ending, which is what the
// two errors below stand for. An interior pointer, a double free: the driver must not see it, it
// knows only the region.
CUresult DeviceMemory::free_block(const Freed& freed, CUdeviceptr address) {
  Context& owner = *freed.owner;
  if (!deferred()) {
    const CUresult result = wait_in_free(freed);
    if (result == CUDA_SUCCESS) {
      ipc_.will_free(address);
      return owner.device.server->free(owner, address);
    }
    if (result != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result != CUDA_ERROR_NOT_READY) {
      return result;  // of earlier work; the free has not happened (cuda.h, cuMemFree)
    }
  }
  return free_later(owner, address, {.in = freed.current == &owner ? nullptr : freed.current});
}

CUresult DeviceMemory::free_later(Context& context, CUdeviceptr address,
                                  const DeviceFrees::How& how) {
  DeviceFrees& frees = waiting_.of(context.device);
  ipc_.will_free(address);
  if (!frees.add(context, address, how)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  frees.close_when_due();
  return CUDA_SUCCESS;
}

// A function of its own, by which counts of instructions leave it out (tests/bench/instructions):
// whether a wait is long is a matter of time.
[[gnu::noinline, gnu::cold]] void DeviceMemory::note_long_wait(const Freed& freed,
                                                               TickCounter::Ticks start,
                                                               TickCounter::Ticks end) {
  freed.owner->device.use.waited(ticks_.time_between(start, end));
}

CUresult DeviceMemory::wait_in_free(const Freed& freed) {
  DeviceFrees& frees = waiting_.of(freed.owner->device);
  if (!times_frees_) {
    return frees.wait_for_all(*freed.owner, freed.current);
  }
  const TickCounter::Ticks start = TickCounter::now();
  const CUresult result = frees.wait_for_all(*freed.owner, freed.current);
  const TickCounter::Ticks end = TickCounter::now();
  if (ticks_.is_long(start, end)) [[unlikely]] {
    note_long_wait(freed, start, end);
  }
  return result;
}

CUdeviceptr DeviceMemory::try_allocate(std::size_t bytes) {
  Context* const context = bytes == 0 ? nullptr : contexts_.current_to_allocate();
  if (context == nullptr || context->has(Context::kBroken) ||
      served_by(context->device, bytes) != Server::By::kArena) {
    return 0;
  }
  const Stopwatch stopwatch(*this);
  idle_trimmer_.start_once();
  collect_waiting(*context);
  const CUdeviceptr address = context->arena.allocate_without_growth(bytes, asking());
  if (address != 0) {
    log::trace("cudaMalloc {} bytes -> {:#x}", bytes, address);
  }
  return address;
}

std::uint64_t DeviceMemory::operations() const noexcept {
  const Ledger<CUdeviceptr>::Totals at_driver = requests_.ledger().totals();
  std::uint64_t operations = at_driver.allocations + at_driver.frees;
  for (const Context* context = contexts_.first(); context != nullptr; context = context->next) {
    const arena::Stats stats = context->arena.stats();
    operations += stats.num_allocs + stats.num_frees + stats.num_failures;
  }
  contexts_.devices().for_each(
      [&](const Device& device) { operations += device.server->operations(); });
  return operations;
}

}  // namespace cubfc
