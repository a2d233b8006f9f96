// What an arena takes of its device in place of what is preallocated there.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "shim/device/device.h"

namespace cubfc {

// Has `obtain` take so many bytes of the device, which is its answer, the driver's. What is
// preallocated makes way before, but not for what the device, or a reserve, has no room for all the
// same; after it, what of that was not used is taken back. `spare`: of memory that is taken
// already, and not preallocated, so much is used first. A context of the device is current.
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
  const std::uint64_t given_up = preallocation.make_way(lacking);
  preallocation.keep_to_limit();
  const CUresult result = obtain();
  if (result == CUDA_SUCCESS) {
    preallocation.after(given_up, lacking);
  } else {
    preallocation.hold(given_up);
  }
  return result;
}

}  // namespace cubfc
