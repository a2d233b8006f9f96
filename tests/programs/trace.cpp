// Reading and making up traces.
#include "trace.h"

#include <algorithm>
#include <unordered_map>

#include "cli/recordings/open_recording.h"

namespace programs {
namespace {

// splitmix64: the standard library's distributions differ between implementations, this does not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t below(std::uint64_t bound) {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return (z ^ (z >> 31U)) % bound;
  }

 private:
  std::uint64_t state_;
};

std::uint64_t size_like_training(Random& random) {
  const std::uint64_t kind = random.below(100);
  if (kind < 60) {
    return 1 + random.below(std::uint64_t{16} << 10U);
  }
  if (kind < 95) {
    return std::uint64_t{4096} << random.below(10);
  }
  return (1 + random.below(8)) << 20U;
}

}  // namespace

Trace read_trace(const std::string& path) {
  using cubfc::trace::Kind;
  Trace trace;
  std::unordered_map<std::uint64_t, std::uint32_t> live;
  for (const auto& event : cubfc::recordings::open_recording(path).events) {
    if (event.kind == Kind::kAllocate) {
      live[event.address] = trace.blocks;
      trace.ops.push_back({TraceOp::Action::kAllocate, trace.blocks++, event.bytes});
    } else if (event.kind == Kind::kOutOfMemory) {
      ++trace.recorded_failures;
    } else if (event.kind == Kind::kFree || event.kind == Kind::kRetire) {
      const auto found = live.find(event.address);
      if (found == live.end()) {
        ++trace.unknown_frees;
        continue;
      }
      trace.ops.push_back({TraceOp::Action::kFree, found->second, 0});
      live.erase(found);
    }
  }
  return trace;
}

Trace synthetic_trace(std::uint64_t ops, std::uint64_t seed) {
  constexpr std::size_t kMostLive = 400;
  Random random(seed);
  Trace trace;
  trace.ops.reserve(ops);
  std::vector<std::uint32_t> live;
  while (trace.ops.size() < ops) {
    const bool free = !live.empty() && (live.size() >= kMostLive || random.below(100) < 48);
    if (!free) {
      trace.ops.push_back({TraceOp::Action::kAllocate, trace.blocks, size_like_training(random)});
      live.push_back(trace.blocks++);
      continue;
    }
    // Mostly among the youngest, as activations go; sometimes any.
    const std::size_t reach =
        random.below(10) == 0 ? live.size() : std::min<std::size_t>(16, live.size());
    const std::size_t index = live.size() - 1 - random.below(reach);
    trace.ops.push_back({TraceOp::Action::kFree, live[index], 0});
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
  }
  return trace;
}

}  // namespace programs
