#include "shim/serve/allocations.h"

#include <limits>

#include "shim/background/background.h"
#include "shim/background/map_drawer.h"
#include "shim/background/soft_reserve.h"
#include "shim/device/contexts.h"
#include "shim/driver/captures.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/limit/callers.h"
#include "shim/serve/announcement.h"
#include "shim/serve/driver_requests.h"
#include "shim/serve/failed_requests.h"
#include "shim/share/ipc.h"
#include "shim/source/memory_sources.h"
#include "shim/tell/log.h"
#include "shim/wait/waiting_frees.h"

namespace cubfc {

namespace {

bool lacks_memory(arena::Failure failure) {
  return failure != arena::Failure::kSourceError && failure != arena::Failure::kTooLarge;
}

}  // namespace

Allocations::Allocations(const DriverFunctions& driver, const config::Policy& policy,
                         const Uses& uses)
    : driver_(driver),
      policy_(policy),
      callers_(uses.callers),
      contexts_(uses.contexts),
      captures_(uses.captures),
      sources_(uses.sources),
      failed_(uses.failed),
      requests_(uses.requests),
      soft_reserve_(uses.soft_reserve),
      map_(uses.map),
      background_(uses.background),
      time_(uses.time),
      pitch_(driver, uses.sources),
      most_at_hand_(uses.time.watches_each_call() ? 0 : most_shared()) {}

std::uint64_t Allocations::most_shared() const {
  return policy_.ipc.value == config::Ipc::kDriver ? kSmallestDriverShared - 1
                                                   : std::numeric_limits<std::uint64_t>::max();
}

arena::Caller Allocations::asking() const {
  return callers_.asking();
}

void Allocations::served_again(Context& context, std::size_t bytes) {
  failed_.served(context, bytes);
}

Server::By Allocations::served_by(const Device& device, std::size_t bytes) const {
  return bytes > most_shared() ? Server::By::kDriver : device.server->by;
}

CUdeviceptr Allocations::take_at_hand(std::size_t bytes, const void* asking) {
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

CUresult Allocations::allocate(CUdeviceptr* address, std::size_t bytes) {
  const TimeInCalls::Stopwatch stopwatch(time_);
  // Invalid arguments go to the driver, which answers with its own error.
  Context* const context =
      address == nullptr || bytes == 0 ? nullptr : contexts_.current_to_allocate();
  if (context == nullptr) {
    return without_context(address, bytes);
  }
  return serve(*context, address, bytes, "cuMemAlloc");
}

// While a stream captures, cubfc may not wait for the program's work, and so not for freed blocks
// that this work may still use. A request that idle memory cannot serve then gets an allocation of
// the driver's own, which the driver also frees.
CUresult Allocations::serve(Context& context, CUdeviceptr* address, std::size_t bytes,
                            const char* function) {
  background_.start_once();
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

// Called for invalid arguments, and if contexts_ knows no current context. Passes the request to
// the driver. But under a limit, a request with valid arguments is not passed on if the driver says
// that a context is current: it would get round the limit. If the driver cannot tell the context's
// id, returns the driver's error; else refuses the request.
CUresult Allocations::without_context(CUdeviceptr* address, std::size_t bytes) {
  CUcontext current = nullptr;
  unsigned long long id = 0;
  const bool limited = policy_.limits();
  if (limited && address != nullptr && bytes > 0 &&
      driver_.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) {
    if (const CUresult broken = driver_.cuCtxGetId(current, &id); broken != CUDA_SUCCESS) {
      return broken;  // a context that was destroyed, for example
    }
    log::warn(
        "a request of {} bytes is refused: the driver does not say which context is current, and "
        "a limit is set",
        bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return driver_.cuMemAlloc_v2(address, bytes);
}

// Returns freed blocks to the arena if the work that may have used them is done. Does not wait.
void Allocations::collect_waiting(const Context& context) {
  if (DeviceFrees* const frees = WaitingFrees::known_of(context.device);
      frees != nullptr && frees->any()) {
    frees->collect();
  }
}

// Tries one after the other: what the arena has; growth; growth with what can be given back at
// once; regions that are not meant for the request; growth with what is given back after a wait;
// those regions once more.
arena::Allocation Allocations::take(Context& context, const Wanted& wanted) {
  collect_waiting(context);
  const std::uint64_t bytes = wanted.bytes;
  Search search(sources_, context.device, {.bytes = bytes, .counted = true, .from_blocks = true});
  const auto allocate = [&] {
    const SoftReserve::Taking taking(context.device);
    return context.arena.allocate(bytes, wanted.caller);
  };
  if (const CUdeviceptr at_hand = context.arena.allocate_without_growth(bytes, wanted.caller);
      at_hand != 0) {
    return {.address = at_hand};
  }
  if (DeviceFrees* const frees = WaitingFrees::known_of(context.device); frees != nullptr) {
    frees->close_and_collect();  // before the arena grows
  }
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

// Whether the driver refuses the calls that make pages, or a pool, though its own cuMemAlloc may
// succeed. The request is served by the driver then. Logged once for each device.
bool Allocations::is_refused_to_us(const Context& context, CUresult result) {
  const config::Allocator allocator = context.device.server->allocator();
  if (stays(result) || allocator == config::Allocator::kBfc) {
    return false;
  }
  if (!context.device.says_refusal.exchange(true)) {
    log::warn(
        "GPU {}: the driver answers CUBFC_ALLOCATOR={} with {}; requests that it refuses so go to "
        "its cuMemAlloc",
        context.device.handle, config::name_of(allocator), name_of(driver_, result));
  }
  return true;
}

CUresult Allocations::allocate_from_arena(Context& context, CUdeviceptr* address,
                                          const Wanted& wanted, const char* function) {
  const std::uint64_t bytes = wanted.bytes;
  background_.start_once();             // StreamOrdered calls this function without serve()
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
      const auto refused = static_cast<CUresult>(got.source_error);
      context.note(refused);
      return is_refused_to_us(context, refused)
                 ? allocate_from_driver(context, address, bytes, function)
                 : refused;
    }
    failed_.report({context.device, bytes, function}, got.failure, &context);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = got.address;
  failed_.served(context, bytes);
  log::trace("{} {} bytes -> {:#x}", function, bytes, got.address);
  return CUDA_SUCCESS;
}

CUresult Allocations::allocate_from_pool(Context& context, CUdeviceptr* address, std::size_t bytes,
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
    return is_refused_to_us(context, result)
               ? allocate_from_driver(context, address, bytes, function)
               : result;
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
    return result != CUDA_ERROR_OUT_OF_MEMORY && is_refused_to_us(context, result)
               ? allocate_from_driver(context, address, bytes, function)
               : result;
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

CUresult Allocations::allocate_from_driver(Context& context, CUdeviceptr* address,
                                           std::size_t bytes, const char* function, Mode mode) {
  if (context.device.server->by == Server::By::kDriver) {
    announce(driver_, policy_, context);
  }
  return requests_.allocate(
      context, {context.device, Memory::kDirect, bytes, function, nullptr, mode == Mode::kRelaxed},
      address, [&](CUdeviceptr* got) { return driver_.cuMemAlloc_v2(got, bytes); },
      [&](CUdeviceptr got) { free_relaxed(got); });
}

CUresult Allocations::allocate_managed(CUdeviceptr* address, std::size_t bytes, unsigned flags) {
  Context* const context =
      address == nullptr || bytes == 0 ? nullptr : contexts_.current_to_allocate();
  const auto call = [&](CUdeviceptr* got) { return driver_.cuMemAllocManaged(got, bytes, flags); };
  if (context == nullptr) {
    return call(address);
  }
  // Without this, managed memory would lie on the host while preallocated memory is unused.
  sources_.give_up_preallocated(context->device, bytes);
  return requests_.allocate(*context,
                            {context->device, Memory::kManaged, bytes, "cuMemAllocManaged"},
                            address, call, [&](CUdeviceptr got) { free_relaxed(got); });
}

// Frees memory that the program has not been given.
void Allocations::free_relaxed(CUdeviceptr address) const {
  const RelaxedCapture relaxed(driver_);
  driver_.cuMemFree_v2(address);
}

CUresult Allocations::allocate_pitch(CUdeviceptr* address, std::size_t* pitch, std::size_t width,
                                     std::size_t height, unsigned element_bytes) {
  const TimeInCalls::Stopwatch stopwatch(time_);
  const bool plain = address != nullptr && pitch != nullptr && width > 0 && height > 0;
  Context* const context = plain ? contexts_.current_to_allocate() : nullptr;
  const auto row_bytes =
      context == nullptr ? std::nullopt : pitch_.row_bytes(context->device, width, element_bytes);
  if (!row_bytes) {
    return driver_.cuMemAllocPitch_v2(address, pitch, width, height, element_bytes);
  }
  const bool overflows = height > std::numeric_limits<std::size_t>::max() / *row_bytes;
  const std::size_t bytes =
      overflows ? std::numeric_limits<std::size_t>::max() : *row_bytes * height;
  const CUresult result = serve(*context, address, bytes, "cuMemAllocPitch");
  if (result == CUDA_SUCCESS) {
    *pitch = *row_bytes;
  }
  return result;
}

CUdeviceptr Allocations::try_allocate(std::size_t bytes) {
  Context* const context = bytes == 0 ? nullptr : contexts_.current_to_allocate();
  if (context == nullptr || context->has(Context::kBroken) ||
      served_by(context->device, bytes) != Server::By::kArena) {
    return 0;
  }
  const TimeInCalls::Stopwatch stopwatch(time_);
  background_.start_once();
  collect_waiting(*context);
  const CUdeviceptr address = context->arena.allocate_without_growth(bytes, asking());
  if (address != 0) {
    failed_.served(*context, bytes);
    log::trace("cudaMalloc {} bytes -> {:#x}", bytes, address);
  }
  return address;
}

}  // namespace cubfc
