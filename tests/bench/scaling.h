// Several threads on one arena: what they achieve together, and whether each gets its share.
#pragma once

#include <cstdint>
#include <vector>

namespace cubfc::bench {

struct ThreadsTime {
  int threads = 0;
  double ns_a_pair = 0;    // wall-clock time over the pairs of all threads together
  double throughput = 0;   // over that of one thread
  double least_share = 0;  // pairs of the least-served thread over an equal share
  double own_arenas = 0;   // throughput over one when each thread has an arena of its own: what the
                           // machine had to give at that moment. Near 1 with two threads, the
                           // threads took turns on one processor, and little can be told
};

// Medians over the rounds; in each, every count of threads (1, 2, 4, 8, 16) runs for `ns_a_turn`.
std::vector<ThreadsTime> measure_threads(int rounds, double ns_a_turn);

}  // namespace cubfc::bench
