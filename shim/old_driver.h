// What cubfc does when the driver is too old: nothing is intercepted then.
#pragma once

#include "config/policy.h"

namespace cubfc {

// `version` is as cuDriverGetVersion gives it. cuCtxGetId, by which cubfc tells contexts apart,
// came with 12.0.
constexpr bool is_too_old(int version) {
  return version < 12000;
}

// Called by Process when the driver is too old. Says in the log what follows. kNoMemory: only cubfc
// would keep the limit (Policy::firm_limit()), or the limit is unusable, so no device memory is
// given at all. kNothing: there is no limit, or only one in another project's variables, which
// programs have that never asked for cubfc; the driver serves every request.
enum class WithOldDriver : bool { kNothing, kNoMemory };
WithOldDriver tell_of_old_driver(int version, const config::Policy& policy);

}  // namespace cubfc
