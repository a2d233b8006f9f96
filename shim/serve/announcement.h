// The line that tells the user what serves a context, when it is asked for memory for the first
// time.
#pragma once

#include "config/policy.h"

namespace cubfc {

struct Context;
struct DriverFunctions;

// Once for each context; later calls do nothing. At level warn when the arena has less than was
// asked for. Thread-safe.
void announce(const DriverFunctions& driver, const config::Policy& policy,
              Context& context) noexcept;

}  // namespace cubfc
