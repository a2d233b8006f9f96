// The log line that tells the user what serves a context's requests; written when memory is
// requested in the context for the first time.
#pragma once

#include "config/policy.h"

namespace cubfc {

struct Context;
struct DriverFunctions;

// Allocations calls it when an arena has grown, and before each request that a pool or the driver
// serves; the first call in a context writes the line. At level info; at warn when the arena got
// over 64 MiB less than was to be preallocated. Thread-safe.
void announce(const DriverFunctions& driver, const config::Policy& policy,
              Context& context) noexcept;

}  // namespace cubfc
