#include "shim/serve/driver_requests.h"

#include <new>

#include "shim/background/background.h"
#include "shim/background/soft_reserve.h"
#include "shim/device/contexts.h"
#include "shim/tell/log.h"

namespace cubfc {

DriverRequests::DriverRequests(const DriverFunctions& driver, Contexts& contexts,
                               const MemorySources& sources, FailedRequests& failed,
                               SoftReserve& soft_reserve, Background& background)
    : driver_(driver),
      sources_(sources),
      failed_(failed),
      soft_reserve_(soft_reserve),
      background_(background) {
  contexts.add_listener(*this);
}

// Whether the request could be served if nobody held anything.
bool DriverRequests::is_possible(const DriverRequest& request) {
  const Device& device = request.device;
  return (!device.limit.counts(request.memory) || request.bytes <= device.limit.budget.most()) &&
         (request.memory == Memory::kManaged || request.bytes <= device.total_bytes);
}

// From offer() on, a member of a group follows changes of the group's limit. It is called here,
// too, because the program may never allocate in an arena.
void DriverRequests::begin(const DriverRequest& request) noexcept {
  background_.start_once();
  if (request.device.limit.group() != nullptr) {
    soft_reserve_.offer(request.device);
  }
}

Need DriverRequests::need(const DriverRequest& request) {
  return {request.bytes, request.memory != Memory::kManaged,
          request.device.limit.counts(request.memory), request.memory == Memory::kOwnPool};
}

CUresult DriverRequests::enter(const Context& context, const DriverRequest& request,
                               CUdeviceptr address, Claim&& claim) try {
  // cuda.h, cuCtxDestroy: memory of a pool outlives the context.
  const bool of_pool = request.memory == Memory::kPool;
  ledger_.add(address, {std::move(claim), of_pool ? 0 : context.id.load(std::memory_order_relaxed),
                        request.relaxed});
  log::trace("{} {} bytes -> {:#x} (driver)", request.function, request.bytes, address);
  return CUDA_SUCCESS;
} catch (const std::bad_alloc&) {
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void DriverRequests::tell_of_free(CUdeviceptr address, CUresult result) const {
  log::trace("cuMemFree {:#x} (driver): {}", address, name_of(driver_, result));
}

}  // namespace cubfc
