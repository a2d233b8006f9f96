#include "shim/old_driver.h"

#include <string>

#include "shim/tell/format.h"
#include "shim/tell/log.h"

namespace cubfc {

WithOldDriver tell_of_old_driver(int version, const config::Policy& policy) {
  const std::string needs =
      format("the driver is CUDA {}.{}, and cubfc needs 12.0", version / 1000, version % 1000 / 10);
  const config::Origin* const firm = policy.firm_limit();
  if (firm == nullptr && !policy.limit_unusable) {
    log::warn("{}: nothing is intercepted{}", needs,
              policy.limits() ? ", and no limit is kept" : "");
    return WithOldDriver::kNothing;
  }
  log::write(log::Level::kError, needs + " to keep " +
                                     (firm != nullptr ? firm->text() : std::string("a limit")) +
                                     ": no device memory is given");
  return WithOldDriver::kNoMemory;
}

}  // namespace cubfc
