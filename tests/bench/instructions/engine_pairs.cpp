// The engine alone, for instructions.py to count: plays a workload through an arena of one region,
// with its lock, its look-up by address and its statistics. Prints the pairs of a pass.
//
//     engine_pairs <arena | nothing> <workload> <passes>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "arena_contenders.h"
#include "named_workload.h"
#include "play.h"

namespace {

// What the loop itself costs.
class Nothing {
 public:
  using Handle = std::uint64_t;
  explicit Nothing(std::uint64_t /*capacity*/) {}
  [[gnu::noinline]] Handle allocate(std::uint64_t bytes) { return bytes; }
  [[gnu::noinline]] void free(Handle /*handle*/) {}
  static bool failed(Handle handle) { return handle == 0; }
};

template <typename A>
int play_passes(const cubfc::bench::Workload& workload, int passes) {
  A allocator(cubfc::bench::ample_capacity(workload));
  cubfc::bench::Handles<A> handles(workload.slots);
  for (int pass = 0; pass < passes; ++pass) {
    if (!cubfc::bench::play(allocator, workload, handles)) {
      std::fprintf(stderr, "engine_pairs: an allocation has failed\n");
      return 1;
    }
  }
  std::printf("%llu\n", static_cast<unsigned long long>(workload.allocations));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string contender = argc == 4 ? argv[1] : "";
  if (contender != "arena" && contender != "nothing") {
    std::fprintf(stderr, "usage: engine_pairs <arena | nothing> <workload> <passes>\n");
    return 2;
  }
  try {
    const cubfc::bench::Workload workload = cubfc::bench::named_workload(argv[2]);
    const int passes = std::atoi(argv[3]);
    return contender == "arena" ? play_passes<cubfc::bench::ByAddress>(workload, passes)
                                : play_passes<Nothing>(workload, passes);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "engine_pairs: %s\n", error.what());
    return 2;
  }
}
