// The rounds. Noise comes and goes on a machine that others share: within a round each contender
// has its turn soon after the other, so that it meets all alike, and ratios are taken round by
// round.
#include "speed.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "arena_contenders.h"
#include "clock.h"
#include "first_fit.h"
#include "floor.h"
#include "others.h"
#include "play.h"
#include "xla_best_fit.h"

namespace cubfc::bench {
namespace {

constexpr int kFewestRounds = 3;

// One allocator with a workload, kept from round to round.
class Contender {
 public:
  template <typename A, typename... Arguments>
  static std::optional<Contender> make(std::string name, const Workload& workload,
                                       Arguments... arguments) {
    auto allocator = std::make_shared<A>(ample_capacity(workload), arguments...);
    auto handles = std::make_shared<Handles<A>>(workload.slots);
    Contender contender(std::move(name), workload.allocations, [allocator, handles, &workload] {
      return play(*allocator, workload, *handles);
    });
    // The first pass warms up and shows whether it can be played at all, the second how long.
    if (!contender.pass_()) {
      return std::nullopt;
    }
    contender.ns_a_pass_ = contender.turn(1) * static_cast<double>(workload.allocations);
    return contender;
  }

  // Nanoseconds for a pair, over so many passes.
  double turn(int passes) const {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < passes; ++i) {
      pass_();
    }
    return ns_since(start) / (static_cast<double>(pairs_) * passes);
  }
  int passes_for(double ns) const {
    return static_cast<int>(std::clamp(ns / std::max(ns_a_pass_, 1.0), 0.0, 1e6)) + 1;
  }

  const std::string& name() const { return name_; }
  double ns_a_pass() const { return ns_a_pass_; }

 private:
  Contender(std::string name, std::uint64_t pairs, std::function<bool()> pass)
      : name_(std::move(name)), pairs_(pairs), pass_(std::move(pass)) {}

  std::string name_;
  std::uint64_t pairs_;
  std::function<bool()> pass_;
  double ns_a_pass_ = 0;
};

using Contenders = std::vector<Contender>;
using Rounds = std::map<std::string, std::vector<double>>;  // by contender: ns for each round

template <typename A, typename... Arguments>
void enter(Contenders& contenders, std::string name, const Workload& workload,
           Arguments... arguments) {
  if (auto contender = Contender::make<A>(std::move(name), workload, arguments...)) {
    contenders.push_back(std::move(*contender));
  }
}

Rounds play_rounds(const Contenders& contenders, const SpeedSettings& settings) {
  double ns_a_round = 0;
  for (const Contender& contender : contenders) {
    ns_a_round += std::max(contender.ns_a_pass(), settings.ns_a_turn);
  }
  // A round of many seconds is noise-proof by its length.
  const int rounds = ns_a_round > 4e9 ? std::min(settings.rounds, kFewestRounds) : settings.rounds;
  Rounds result;
  for (int round = 0; round < rounds; ++round) {
    for (const Contender& contender : contenders) {
      result[contender.name()].push_back(contender.turn(contender.passes_for(settings.ns_a_turn)));
    }
  }
  return result;
}

double median_ratio(const std::vector<double>& values, const std::vector<double>& to) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < values.size() && i < to.size(); ++i) {
    ratios.push_back(values[i] / to[i]);
  }
  return median(std::move(ratios));
}

}  // namespace

PairTimes measure_pairs(const Workload& workload, const SpeedSettings& settings) {
  Contenders contenders;
  enter<Floor>(contenders, kFloor, workload);
  enter<LockedFloor>(contenders, kLockedFloor, workload);
  enter<ByHandle>(contenders, kByHandle, workload);
  enter<ByAddress>(contenders, kLocked, workload);
  enter<AsTheShim>(contenders, kAsTheShim, workload);
  enter<XlaBestFit>(contenders, kXla, workload);
#ifdef CUBFC_BENCH_OFFSET_ALLOCATOR
  enter<OffsetAllocatorBlocks>(contenders, kOffsetAllocator, workload);
#endif
#ifdef CUBFC_BENCH_VMA
  enter<VmaBlocks>(contenders, kVma, workload);
#endif
  if (workload.peak_live_blocks <= kMostBlocksForFirstFit) {
    enter<FirstFit>(contenders, kFirstFit, workload);
#ifdef CUBFC_BENCH_RMM
    enter<RmmBlocks>(contenders, kRmm, workload);
#endif
  }
  const Rounds rounds = play_rounds(contenders, settings);
  PairTimes times;
  for (const auto& [name, values] : rounds) {
    times[name] = {median(values), median_ratio(values, rounds.at(kFloor)),
                   median_ratio(values, rounds.at(kLockedFloor))};
  }
  return times;
}

std::vector<RegionsTime> measure_regions(const Workload& workload, const SpeedSettings& settings) {
  constexpr int kCounts[] = {1, 4, 16};
  Contenders contenders;
  for (const int count : kCounts) {
    const auto regions = static_cast<std::uint64_t>(count);
    enter<ByHandle>(contenders, "handle " + std::to_string(count), workload, regions);
    enter<ByLookUp>(contenders, "look-up " + std::to_string(count), workload, regions);
  }
  Rounds rounds = play_rounds(contenders, settings);
  std::vector<RegionsTime> times;
  for (const int count : kCounts) {
    times.push_back({count, median(rounds["handle " + std::to_string(count)]),
                     median(rounds["look-up " + std::to_string(count)])});
  }
  return times;
}

}  // namespace cubfc::bench
