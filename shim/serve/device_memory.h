// What becomes of a request for device memory: from the arena of the current context, or from the
// driver under the same limit. This is where an allocation and a free are decided.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include "config/policy.h"
#include "shim/device/contexts.h"
#include "shim/driver/captures.h"
#include "shim/driver/driver.h"
#include "shim/limit/ledger.h"
#include "shim/serve/idle_trimmer.h"
#include "shim/serve/waiting_frees.h"
#include "shim/share/ipc.h"
#include "shim/tell/log.h"
#include "shim/tell/out_of_memory.h"

namespace cubfc {

// Each function answers as the driver's of the same purpose would. Thread-safe. Throws
// std::bad_alloc only before anything has been changed.
class DeviceMemory : private ContextListener {
 public:
  DeviceMemory(const DriverFunctions& driver, const config::Policy& policy, Contexts& contexts,
               Captures& captures, Ipc& ipc)
      : driver_(driver),
        policy_(policy),
        contexts_(contexts),
        captures_(captures),
        ipc_(ipc),
        waiting_(driver, contexts, captures),
        idle_trimmer_(policy.trim_after.value,
                      {[this] { return trim(false); }, [this] { return operations(); }}) {
    contexts.tell(*this);
  }

  CUresult allocate(CUdeviceptr* address, std::size_t bytes);
  CUresult allocate_pitch(CUdeviceptr* address, std::size_t* pitch, std::size_t width,
                          std::size_t height, unsigned element_bytes);
  CUresult free(CUdeviceptr address);
  // Stream-ordered allocation: the driver's, counted and limited; under
  // CUBFC_STREAM_ORDERED=arena from the arena.
  struct StreamOrderedRequest {
    std::size_t bytes;
    bool from_pool;  // the pool is named
    CUmemoryPool pool;
    CUstream stream;
    bool per_thread;  // the calling function's stream 0 is the per-thread default stream
  };
  CUresult allocate_async(CUdeviceptr* address, const StreamOrderedRequest& request);
  // A block of the arena is freed as free() does, which waits for more than the stream, but for
  // CUBFC_STREAM_ORDERED=arena; anything else is the driver's.
  CUresult free_async(CUdeviceptr address, CUstream stream, bool per_thread);

  CUresult allocate_managed(CUdeviceptr* address, std::size_t bytes, unsigned flags);

  // A request that only the driver can serve.
  struct DriverRequest {
    Device& device;  // whose memory it takes
    Holding holding;
    std::uint64_t bytes;
    const char* function;         // as the program called it
    CUmemoryPool pool = nullptr;  // that serves it, if one does and is known

    bool is_possible() const;
  };
  // Claims the bytes, then calls the driver; both again as long as arenas hold memory that nobody
  // uses. What fails is reported. `claim` is set exactly when the driver's answer is a success.
  // `undo` gives back what `call` has got: a pool may have grown by more than was claimed.
  template <typename Call, typename Undo>
  CUresult claim_and_call(const DriverRequest& request, std::optional<Claim>& claim, Call call,
                          Undo undo) {
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    arena::Failure failure = arena::Failure::kOverLimit;
    for (int tries = 0; tries < kMostTries; ++tries) {
      claim = Claim::take(request.device, request.holding, request.bytes, request.pool);
      if (claim) {
        result = call();
        failure = arena::Failure::kExhausted;
      }
      if (result == CUDA_SUCCESS && Device::is_of_pool(request.holding) &&
          !fits_limit(request.device)) {
        undo();
        result = CUDA_ERROR_OUT_OF_MEMORY;
        failure = arena::Failure::kOverLimit;
      }
      if (result == CUDA_SUCCESS) {
        return result;
      }
      claim.reset();
      if (result != CUDA_ERROR_OUT_OF_MEMORY || !request.is_possible() ||
          !make_room(&request.device)) {
        break;
      }
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      report(request, failure);
    }
    return result;
  }

  // For what the driver takes by itself of this device's memory, or, if none is named, of the
  // current context's device: what waits is made free, and what nobody uses is given back. True if
  // anything was.
  bool make_room_at_driver(std::optional<CUdevice> device) noexcept;
  // Calls the driver, and once more if it lacks memory and that can be helped.
  template <typename Call>
  CUresult call_with_room(std::optional<CUdevice> device, Call call) {
    const CUresult result = call();
    return result == CUDA_ERROR_OUT_OF_MEMORY && make_room_at_driver(device) ? call() : result;
  }

  // Gives unused memory back to the devices; what was preallocated only on demand. Returns its
  // bytes.
  std::uint64_t trim(bool preallocated) noexcept;

  CUresult info(std::size_t* free_bytes, std::size_t* total_bytes);
  CUresult total(std::size_t* bytes, CUdevice device);

  // For the runtime's entry points, which leave everything that is not plain to the runtime itself:
  // an address from the current context's arena, or 0; true when the address was a block and is
  // free now.
  CUdeviceptr try_allocate(std::size_t bytes);
  bool try_free(CUdeviceptr address);

  // The program has made a pool in the host's memory, which no device's limit counts; or it may
  // have ended it.
  void host_pool_made(CUmemoryPool pool) {
    const std::lock_guard lock(host_pools_mutex_);
    host_pools_.push_back(pool);
  }
  void pool_will_end(CUmemoryPool pool) {
    const std::lock_guard lock(host_pools_mutex_);
    std::erase(host_pools_, pool);
  }
  // The program has made a pool the device's own, or let other devices use one: what the arena
  // gives would not be like it.
  void pools_changed() { pools_changed_.store(true, std::memory_order_relaxed); }
  // What waits for the device cannot become free while a stream captures.
  void capture_will_begin() noexcept { waiting_.close_and_collect(); }
  void stream_will_end(CUstream stream) { waiting_.stream_will_end(stream); }

  // The time that allocations and frees have taken, waits for the device included; counted only
  // when CUBFC_SHOW_STATS is set.
  std::chrono::nanoseconds time_spent() const {
    return std::chrono::nanoseconds(spent_ns_.load(std::memory_order_relaxed));
  }
  const Ledger<CUdeviceptr>& ledger() const { return ledger_; }

  // The part of it that frees have waited for the device.
  std::chrono::nanoseconds time_waited() const {
    return std::chrono::nanoseconds(waited_ns_.load(std::memory_order_relaxed));
  }

 private:
  class Stopwatch;

  // The driver takes a context's memory with it, and waits for the context's own work; but work of
  // other contexts may still use what was freed there: waits for that.
  void context_may_end() noexcept override;
  // What a pool gave it does not go with it: given back, once its work is done.
  void context_will_end(Context& context) noexcept override;
  void context_ended(std::uint64_t id) override { ledger_.forget_context(id); }

  // Requests of this size have an allocation of the driver's of their own, to be shared by its IPC.
  bool is_dedicated(std::size_t bytes) const {
    return policy_.ipc.value == config::Ipc::kDriver && bytes >= kSmallestDriverShared;
  }
  Server::By served_by(const Device& device, std::size_t bytes) const {
    return is_dedicated(bytes) ? Server::By::kDriver : device.server->by;
  }
  CUresult serve(Context& context, CUdeviceptr* address, std::size_t bytes, const char* function);
  CUresult allocate_claimed(Context& context, CUdeviceptr* address, std::size_t bytes,
                            const char* function);
  CUresult allocate_from_arena(Context& context, CUdeviceptr* address, std::size_t bytes,
                               const char* function);
  CUresult allocate_from_driver(Context& context, CUdeviceptr* address, std::size_t bytes,
                                const char* function);
  template <typename Obtain, typename Undo>
  CUresult allocate_from_driver(Context& context, const DriverRequest& request,
                                CUdeviceptr* address, Obtain obtain, Undo undo);
  void report(const DriverRequest& request, arena::Failure failure,
              const Context* context = nullptr);
  DriverRequest driver_request(const StreamOrderedRequest& request, Device& of_stream,
                               const char* function);
  CUresult at_driver(const StreamOrderedRequest& request, CUdeviceptr* address) const;
  Context* context_of(const StreamOrderedRequest& request);
  std::optional<StreamId> order_in(const Context& context, CUstream stream, bool per_thread) const;
  bool is_of_host(CUmemoryPool pool);
  bool is_served_in_stream_order(const StreamOrderedRequest& request, const Context& context);
  CUresult without_context(CUdeviceptr* address, std::size_t bytes);
  bool make_room(Device* device);
  bool fits_limit(Device& device);
  void free_relaxed(CUdeviceptr address) const;
  CUresult free_at_driver_async(CUdeviceptr address, CUstream stream, bool per_thread) const;
  bool drain_pools(Device& device);
  bool release_unused(const Device* device);
  // Each try but the first has been given memory back; more would be for a reason that is not lack
  // of memory.
  static constexpr int kMostTries = 1000;
  CUresult free_block(Context& context, CUdeviceptr address);
  CUresult free_later(Context& context, CUdeviceptr address, const StreamId* order);
  template <typename Free>
  CUresult free_at_driver(CUdeviceptr address, Free free);
  CUresult refused_without_context(const Context& owner, CUdeviceptr address) const;
  Context* owner_of(CUdeviceptr address) const;
  CUresult wait_in_free(const Context& owner);
  std::uint64_t left_to(const Context& context, std::uint64_t device_free);
  std::uint64_t unused_by_others(const Context& context);
  std::uint64_t shown_total(std::uint64_t bytes) const;
  bool deferred() const { return policy_.free_mode.value == config::FreeMode::kDeferred; }
  bool serves_stream_order() const {
    return policy_.stream_ordered.value == config::StreamOrdered::kArena;
  }
  // Frees gather in epochs all along, not only while a stream captures.
  bool gathers() const { return deferred() || serves_stream_order(); }
  // Another number after each allocation and each free.
  std::uint64_t operations() const noexcept;
  bool collect_waiting(const Context& context);
  arena::Allocation take(Context& context, std::size_t bytes);
  std::size_t pitch_alignment(Device& device, unsigned element_bytes);
  void announce(Context& context) const noexcept;

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  Contexts& contexts_;
  Captures& captures_;
  Ipc& ipc_;
  Ledger<CUdeviceptr> ledger_;
  OutOfMemoryReporter reporter_;
  std::atomic<std::uint64_t> spent_ns_{0};
  std::atomic<std::uint64_t> waited_ns_{0};
  std::atomic<bool> pools_changed_{false};
  std::mutex host_pools_mutex_;  // guards them
  std::vector<CUmemoryPool> host_pools_;

  // All frees under CUBFC_FREE=deferred, and those made while a stream captured.
  WaitingFrees waiting_;
  IdleTrimmer idle_trimmer_;
};

// By `obtain`, which calls the driver's function; `undo` gives back what that got.
template <typename Obtain, typename Undo>
CUresult DeviceMemory::allocate_from_driver(Context& context, const DriverRequest& request,
                                            CUdeviceptr* address, Obtain obtain, Undo undo) {
  CUdeviceptr got = 0;
  std::optional<Claim> claim;
  if (const CUresult result = claim_and_call(
          request, claim, [&] { return obtain(&got); }, [&] { undo(got); });
      result != CUDA_SUCCESS) {
    ledger_.failed();
    return result;
  }
  // cuda.h, cuCtxDestroy: what a pool gave does not go with the context.
  const bool of_pool = request.holding == Holding::kPool;
  try {
    ledger_.add(got, {std::move(*claim), of_pool ? 0 : context.id.load(std::memory_order_relaxed)});
  } catch (const std::bad_alloc&) {
    undo(got);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *address = got;
  log::trace("{} {} bytes -> {:#x} (driver)", request.function, request.bytes, got);
  return CUDA_SUCCESS;
}

// The entry goes first: as soon as the driver has freed the memory, another thread may be given its
// address.
template <typename Free>
CUresult DeviceMemory::free_at_driver(CUdeviceptr address, Free free) {
  auto entry = ledger_.remove(address);
  const CUresult result = free();
  if (entry && result != CUDA_SUCCESS) {
    ledger_.put_back(address, std::move(*entry));
  }
  log::trace("cuMemFree {:#x} (driver): {}", address, name_of(driver_, result));
  return result;
}

// The block that contains an address.
struct FoundBlock {
  // In whose arena's regions the address lies, or in a block of whose own in its device's pool;
  // nullptr if in none.
  Context* context = nullptr;
  bool live = false;  // and there is a live block, `info`
  arena::BlockInfo info;
};
FoundBlock find_block(const Contexts& contexts, CUdeviceptr address);

// An address that nothing is ever mapped at: below the kernel's vm.mmap_min_addr. What the driver
// says of it is what it says of a pointer that is not a device pointer.
inline constexpr CUdeviceptr kNowhere = 0x1000;

}  // namespace cubfc
