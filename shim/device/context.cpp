#include "shim/device/context.h"

#include "shim/driver/relaxed_capture.h"

namespace cubfc {

bool Context::is_broken(const DriverFunctions& driver) {
  if (!has(kBroken)) {
    return false;
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const RelaxedCapture relaxed(driver);
  const bool is_still = stays(driver.cuMemGetInfo_v2(&free_bytes, &total_bytes));
  if (!is_still) {
    clear(kBroken);
  }
  return is_still;
}

}  // namespace cubfc
