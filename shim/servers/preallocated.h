// How an arena takes memory of its device in place of memory that is preallocated there.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "shim/device/device.h"

namespace cubfc {

// Called when an arena takes `bytes` of the device. Releases at least as many bytes of preallocated
// memory, or all of it, then calls `obtain`, which calls the driver, and returns the driver's
// answer. If the device, or a reserve, could not serve the request even then, releases nothing,
// does not call `obtain`, and returns CUDA_ERROR_OUT_OF_MEMORY. If `obtain` succeeds, preallocates
// again what was released beyond the request; the first time, preallocates what was planned. If
// `obtain` fails, preallocates again all that was released. `spare`: how many of the bytes are in
// pages that the arena's source has already; for these nothing is released. Precondition: a context
// of the device is current.
template <typename Obtain>
CUresult in_place_of_preallocated(const DriverFunctions& driver, Device& device,
                                  std::uint64_t bytes, std::uint64_t spare, Obtain obtain) {
  Preallocation& preallocation = device.preallocation;
  const std::uint64_t held = preallocation.bytes();
  if (!device.reserves_allow(driver, bytes, arena::plus(held, spare))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const std::uint64_t lacking = arena::less(bytes, spare);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (held > 0 && held < lacking &&
      driver.cuMemGetInfo_v2(&free_bytes, &total_bytes) == CUDA_SUCCESS &&
      lacking > free_bytes + held) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const std::uint64_t released = preallocation.make_way(lacking);
  preallocation.keep_to_limit();
  const CUresult result = obtain();
  if (result == CUDA_SUCCESS) {
    preallocation.after(released, lacking);
  } else {
    preallocation.hold(released);
  }
  return result;
}

}  // namespace cubfc
