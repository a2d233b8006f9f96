// WaitingFrees as it must not be: nothing waits for the device, and a freed block is free at once.
// A library made with it must not get past the random programs.
#include "shim/device/device.h"
#include "shim/serve/waiting_frees.h"

namespace cubfc {

WaitingFrees::WaitingFrees(const DriverFunctions& driver, Contexts& contexts, Captures& captures)
    : contexts_(contexts), captures_(captures), fences_(driver, contexts) {}

bool WaitingFrees::add(Context& context, CUdeviceptr address, const StreamId* /*order*/) {
  return context.arena.free(address);
}

void WaitingFrees::context_may_end() noexcept {}

CUdeviceptr WaitingFrees::take_back(Context& /*context*/, const StreamId& /*order*/,
                                    std::uint64_t /*bytes*/) {
  return 0;
}

void WaitingFrees::stream_will_end(CUstream /*stream*/) {}

void WaitingFrees::close_when_due(const Context& /*context*/) noexcept {}

void WaitingFrees::collect() noexcept {}

void WaitingFrees::close_and_collect() noexcept {}

bool WaitingFrees::wait_for_oldest() noexcept {
  return false;
}

CUresult WaitingFrees::wait_for_all(const Context& /*owner*/) {
  return CUDA_SUCCESS;
}

}  // namespace cubfc
