// Requests that only the driver can serve. The bytes of each are claimed from the device's limit
// before the driver is called. A request that fails is tried again when memory can be given back
// for it. A request that fails in the end is reported to the user (FailedRequests).
#pragma once

#include <optional>
#include <utility>

#include "shim/device/device.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/limit/claim.h"
#include "shim/limit/ledger.h"
#include "shim/serve/failed_requests.h"
#include "shim/source/memory_sources.h"
#include "shim/source/unused_memory.h"

namespace cubfc {

class Background;
class SoftReserve;

struct DriverRequest {
  Device& device;  // whose memory it takes
  Memory memory;
  std::uint64_t bytes;
  const char* function;         // as the program called it
  CUmemoryPool pool = nullptr;  // the pool that serves it, if one does and is known
  // The caller has set the relaxed capture mode, because the program's thread may not make such
  // calls in its own. free() will set it for the free.
  bool relaxed = false;
};

// Thread-safe.
class DriverRequests : private ContextListener {
 public:
  DriverRequests(const DriverFunctions& driver, Contexts& contexts, const MemorySources& sources,
                 FailedRequests& failed, SoftReserve& soft_reserve, Background& background);

  // Claims the bytes, then calls the driver (`call` returns its answer); repeats both as long as
  // memory is found for the request. `claim` is set exactly when the driver's answer is a success.
  // `undo` frees what `call` has got; it is called when a pool has grown by more than was claimed,
  // and so beyond the limit.
  template <typename Call, typename Undo>
  CUresult claim_and_call(const DriverRequest& request, std::optional<Claim>& claim, Call call,
                          Undo undo) {
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    arena::Failure failure = arena::Failure::kOverLimit;
    Search search(sources_, request.device, need(request));
    begin(request);
    for (;;) {
      claim = Claim::take(request.device.limit, request.memory, request.bytes, request.pool);
      failure = claim ? arena::Failure::kExhausted : arena::Failure::kOverLimit;
      if (claim) {
        request.device.preallocation.keep_to_limit();
        result =
            request.device.host_reserve_allows(request.bytes) ? call() : CUDA_ERROR_OUT_OF_MEMORY;
      }
      if (result == CUDA_SUCCESS && DeviceLimit::is_of_pool(request.memory) &&
          !sources_.unused().make_limit_hold(request.device)) {
        undo();
        result = CUDA_ERROR_OUT_OF_MEMORY;
        failure = arena::Failure::kOverLimit;
      }
      if (result == CUDA_SUCCESS) {
        failed_.served(request.bytes);
        return result;
      }
      claim.reset();
      if (result != CUDA_ERROR_OUT_OF_MEMORY || !is_possible(request) || !search.finds_more()) {
        break;
      }
    }
    request.device.use.failed(request.memory);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      failed_.report({request.device, request.bytes, request.function,
                      request.device.limit.counts(request.memory)},
                     failure, nullptr);
    }
    return result;
  }

  // As claim_and_call(), for memory at an address, which is entered in the ledger. `obtain` has the
  // driver set the address that it is passed; `undo` frees that address. The ledger's entry goes
  // with the context, unless the memory is a pool's.
  template <typename Obtain, typename Undo>
  CUresult allocate(const Context& context, const DriverRequest& request, CUdeviceptr* address,
                    Obtain obtain, Undo undo) {
    CUdeviceptr got = 0;
    std::optional<Claim> claim;
    if (const CUresult result = claim_and_call(
            request, claim, [&] { return obtain(&got); }, [&] { undo(got); });
        result != CUDA_SUCCESS) {
      return result;
    }
    const CUresult result = enter(context, request, got, std::move(*claim));
    if (result == CUDA_SUCCESS) {
      *address = got;
    } else {
      undo(got);
    }
    return result;
  }

  // Frees what allocate() has got, or what the program has from elsewhere. `free` calls the driver.
  // The ledger's entry is removed before that call: as soon as the driver has freed the memory,
  // another thread may be given its address.
  template <typename Free>
  CUresult free(CUdeviceptr address, Free free) {
    auto entry = ledger_.remove(address);
    CUresult result = CUDA_SUCCESS;
    if (entry && entry->relaxed) {
      const RelaxedCapture relaxed(driver_);
      result = free();
    } else {
      result = free();
    }
    if (entry && result != CUDA_SUCCESS) {
      ledger_.put_back(address, std::move(*entry));
    }
    tell_of_free(address, result);
    return result;
  }

  const Ledger<CUdeviceptr>& ledger() const { return ledger_; }

 private:
  void context_ended(std::uint64_t id) override { ledger_.forget_context(id); }
  static bool is_possible(const DriverRequest& request);
  void begin(const DriverRequest& request) noexcept;
  static Need need(const DriverRequest& request);
  CUresult enter(const Context& context, const DriverRequest& request, CUdeviceptr address,
                 Claim&& claim);
  void tell_of_free(CUdeviceptr address, CUresult result) const;

  const DriverFunctions& driver_;
  const MemorySources& sources_;
  FailedRequests& failed_;
  SoftReserve& soft_reserve_;
  Background& background_;
  Ledger<CUdeviceptr> ledger_;
};

}  // namespace cubfc
