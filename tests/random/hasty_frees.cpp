// DeviceFrees as it must not be: nothing waits for the device, and a freed block is free at once. A
// library made with it must not get past the random programs.
#include "shim/device/device.h"
#include "shim/serve/device_frees.h"

namespace cubfc {

bool DeviceFrees::add(Context& context, CUdeviceptr address, const How& /*how*/) {
  return context.arena.free(address);
}

CUdeviceptr DeviceFrees::take_back(Context& /*context*/, const StreamId& /*order*/,
                                   std::uint64_t /*bytes*/) {
  return 0;
}

void DeviceFrees::stream_will_end(CUstream /*stream*/) {}

void DeviceFrees::close_when_due(const Context& /*context*/) noexcept {}

void DeviceFrees::collect() noexcept {}

void DeviceFrees::close_and_collect() noexcept {}

bool DeviceFrees::wait_for_oldest() noexcept {
  return false;
}

std::size_t DeviceFrees::epochs() noexcept {
  return 0;
}

bool DeviceFrees::has_block_of(const Context& /*context*/) noexcept {
  return false;
}

CUresult DeviceFrees::wait_for_all(const Context& /*owner*/, Context* /*in*/,
                                   WaitPermit& /*permit*/) {
  return CUDA_SUCCESS;
}

}  // namespace cubfc
