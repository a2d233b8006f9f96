#include "shim/serve/pitch.h"

#include <atomic>
#include <bit>

#include "arena/units.h"
#include "shim/device/device.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/source/memory_sources.h"

namespace cubfc {

std::optional<std::size_t> Pitch::row_bytes(Device& device, std::size_t width,
                                            unsigned element_bytes) const {
  const std::size_t multiple = alignment(device, element_bytes);
  int widest = 0;
  if (multiple == 0 ||
      driver_.cuDeviceGetAttribute(&widest, CU_DEVICE_ATTRIBUTE_MAX_PITCH, device.handle) !=
          CUDA_SUCCESS ||
      width > static_cast<std::size_t>(widest)) {
    return std::nullopt;
  }
  return arena::round_up(width, multiple);
}

// What the pitch is a multiple of, in bytes. Learnt once for each element size, by allocating a row
// of one byte. 0: the driver does not take this element size, or the allocation failed.
std::size_t Pitch::alignment(Device& device, unsigned element_bytes) const {
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
    driver_.cuMemFree_v2(sample);
    known.store(alignment, std::memory_order_relaxed);
  }
  return alignment;
}

}  // namespace cubfc
