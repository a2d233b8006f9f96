// How long single calls take through the thread-safe interface, and what records they leave.
#pragma once

#include <cstddef>

#include "workload.h"

namespace cubfc::bench {

// Nanoseconds, the cost of taking the time subtracted.
struct Distribution {
  double p50 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
};

struct Latencies {
  Distribution allocate;        // of every call in every round
  Distribution free;            // retire and reclaim together
  Distribution steady;          // of allocations: each operation's median over the rounds, which
                                // leaves out what the machine did and keeps what the arena does
  Distribution first_allocate;  // in new arenas: host memory is had for the first time
};

// Arena::host_bytes() for each live block when most blocks are live, in a region of 1.25 times the
// peak (part of it grows with the region, not with the blocks).
double host_bytes_a_block(const Workload& workload);

Latencies measure_latencies(const Workload& workload, int rounds);

}  // namespace cubfc::bench
