// A driver that is too old for anything to be intercepted.
#pragma once

#include "config/policy.h"

namespace cubfc {

// Of a version as cuDriverGetVersion says it. cuCtxGetId, by which contexts are told apart, came
// with 12.0.
constexpr bool is_too_old(int version) {
  return version < 12000;
}

// Says in the log what becomes of it. A limit that only cubfc keeps is kept all the same, as the
// strictest one: no memory. Another project's words are in the environment of programs that never
// asked for cubfc, and limit nothing then.
enum class WithOldDriver : bool { kNothing, kNoMemory };
WithOldDriver tell_of_old_driver(int version, const config::Policy& policy);

}  // namespace cubfc
