// The bisection, and the variants.
#include "fit.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "arena_contenders.h"
#include "first_fit.h"
#include "play.h"
#include "xla_best_fit.h"

namespace cubfc::bench {
namespace {

// The answer is exact to this share of the peak.
constexpr std::uint64_t kSteps = 8192;

// Calls `call` with the fitter's class, wrapped so that it can be deduced.
template <typename A>
struct As {
  using Allocator = A;
};
template <typename Call>
auto with_class(Fitter fitter, Call call) {
  switch (fitter) {
    case Fitter::kXla:
      return call(As<XlaBestFit>{});
    case Fitter::kFirstFit:
      return call(As<FirstFit>{});
    case Fitter::kDeferred:
      return call(As<Deferred>{});
    case Fitter::kPreallocated:
      return call(As<Preallocated>{});
    case Fitter::kGrown:
      return call(As<Grown>{});
    case Fitter::kMapped:
      return call(As<Mapped>{});
    case Fitter::kArena:
      break;
  }
  return call(As<ByHandle>{});
}

template <typename A>
double bisect(const Workload& workload) {
  Handles<A> handles(workload.slots);
  const auto suffices = [&](std::uint64_t capacity) {
    A allocator(capacity);
    return play(allocator, workload, handles);
  };
  const auto peak = static_cast<double>(workload.peak_live_bytes);
  std::uint64_t too_little = workload.peak_live_bytes - 1;
  std::uint64_t enough = 0;
  for (const double factor : {1.25, 1.5, 2.0, 4.0}) {
    const auto capacity = std::min(static_cast<std::uint64_t>(peak * factor), kLargestCapacity);
    if (suffices(capacity)) {
      enough = capacity;
      break;
    }
    too_little = capacity;
  }
  if (enough == 0) {
    return 0;
  }
  const std::uint64_t step = std::max<std::uint64_t>(workload.peak_live_bytes / kSteps, 512);
  while (enough - too_little > step) {
    const std::uint64_t middle = too_little + (enough - too_little) / 2;
    (suffices(middle) ? enough : too_little) = middle;
  }
  return static_cast<double>(enough) / peak;
}

}  // namespace

const char* describe(Fitter fitter) {
  switch (fitter) {
    case Fitter::kArena:
      return "arena";
    case Fitter::kDeferred:
      return "arena_deferred";
    case Fitter::kPreallocated:
      return "arena_preallocated";
    case Fitter::kGrown:
      return "arena_grown";
    case Fitter::kMapped:
      return "arena_mapped";
    case Fitter::kXla:
      return "xla_best_fit";
    case Fitter::kFirstFit:
      return "first_fit";
  }
  return "unknown";
}

double least_capacity(Fitter fitter, const Workload& workload) {
  return with_class(fitter, [&]<typename A>(As<A>) { return bisect<A>(workload); });
}

Fit measure_fit(Fitter fitter, const Workload& workload, bool look_for_least) {
  Fit fit = with_class(fitter, [&]<typename A>(As<A>) {
    A allocator(ample_capacity(workload, 4));
    const Played played = play_checked(allocator, workload);
    const double extent = played.failures > 0 ? 0
                                              : static_cast<double>(played.extent_bytes) /
                                                    static_cast<double>(workload.peak_live_bytes);
    Fit measured{extent, 0, played.overlaps};
    if constexpr (std::is_same_v<A, Grown> || std::is_same_v<A, Mapped>) {
      const arena::Stats stats = allocator.arena().stats();
      measured.taken = static_cast<double>(stats.peak_pool_bytes) /
                       static_cast<double>(workload.peak_live_bytes);
      measured.growths = stats.regions_obtained;
    }
    return measured;
  });
  if (look_for_least) {
    fit.least_capacity = least_capacity(fitter, workload);
  }
  return fit;
}

// What is preallocated and in no region yet can be given back whole.
Retrievable measure_retrievable(const Workload& workload) {
  const std::uint64_t capacity = workload.peak_live_bytes / 3 * 4;
  Grown allocator(capacity);
  Handles<Grown> handles(workload.slots);
  play(allocator, workload, handles);
  const std::uint64_t calls_before = allocator.source_calls();
  double shares = 0;
  for (const Op& op : workload.ops) {
    if (op.bytes == 0) {
      allocator.free(handles[op.slot]);
    } else {
      handles[op.slot] = allocator.allocate(op.bytes);
    }
    const arena::Stats stats = allocator.arena().stats();
    const std::uint64_t idle = capacity - std::min(capacity, stats.bytes_in_use);
    const std::uint64_t there =
        capacity - std::min(capacity, stats.pool_bytes) + allocator.arena().unused_bytes();
    shares += idle == 0 ? 1.0 : static_cast<double>(there) / static_cast<double>(idle);
  }
  return {shares / static_cast<double>(workload.ops.size()),
          static_cast<double>(allocator.source_calls() - calls_before) /
              static_cast<double>(workload.allocations)};
}

std::vector<JitteredFit> measure_jittered(const std::vector<const Workload*>& workloads,
                                          int variants,
                                          const std::function<void(const std::string&)>& progress) {
  std::vector<JitteredFit> fits(kFitters.size());
  for (const Workload* workload : workloads) {
    progress(workload->name);
    std::vector<double> sums(kFitters.size());
    for (int variant = 1; variant <= variants; ++variant) {
      const Workload scaled = jittered(*workload, static_cast<std::uint64_t>(variant));
      for (std::size_t i = 0; i < kFitters.size(); ++i) {
        const double ratio = least_capacity(kFitters[i], scaled);
        sums[i] += ratio;
        if (ratio > fits[i].worst) {
          fits[i].worst = ratio;
          fits[i].worst_input = workload->name;
        }
      }
    }
    for (std::size_t i = 0; i < kFitters.size(); ++i) {
      fits[i].means.push_back(sums[i] / variants);
    }
  }
  for (std::size_t i = 0; i < kFitters.size(); ++i) {
    fits[i].fitter = kFitters[i];
    for (const double mean : fits[i].means) {
      fits[i].mean += mean / static_cast<double>(fits[i].means.size());
    }
  }
  return fits;
}

}  // namespace cubfc::bench
