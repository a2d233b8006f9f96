// The tables on standard output.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "report.h"
#include "table.h"

namespace cubfc::bench {
namespace {

// A time or a ratio: 0 says that it was not measured.
std::string number(double value, int decimals) {
  return value == 0 ? "-" : fixed(value, decimals);
}

std::string bytes(std::uint64_t value) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  const auto size = static_cast<double>(value);
  return size >= kGiB ? number(size / kGiB, 2) + " GiB" : number(size / kGiB * 1024, 1) + " MiB";
}

PairTime time_of(const PairTimes& times, const char* contender) {
  const auto found = times.find(contender);
  return found == times.end() ? PairTime{} : found->second;
}

void print_inputs(const Results& results) {
  Table table("Inputs",
              {"input", "kind", "allocations", "most live blocks", "peak live", "rounded/peak"});
  for (const InputResult& input : results.inputs) {
    const Workload& workload = *input.workload;
    table.add({workload.name, describe(workload.kind), std::to_string(workload.allocations),
               std::to_string(workload.peak_live_blocks), bytes(workload.peak_live_bytes),
               number(static_cast<double>(workload.peak_block_bytes) /
                          static_cast<double>(workload.peak_live_bytes),
                      4)});
  }
  table.print();
}

void print_pairs(const Results& results) {
  Table table(
      "Time of an allocate-free pair in ns, median of the rounds. x: over the floor of the same "
      "round (by handle: over the floor without a lock; the others: over the floor with two "
      "lock-unlock pairs)",
      {"input", "floor", "by handle", "x", "locked floor", "locked, look-up", "x", "as the shim",
       "x", "XLA's rule", "first fit", "OffsetAllocator", "VMA", "RMM"});
  for (const InputResult& input : results.inputs) {
    const PairTimes& times = input.pairs;
    const PairTime by_handle = time_of(times, kByHandle);
    const PairTime locked = time_of(times, kLocked);
    const PairTime shim = time_of(times, kAsTheShim);
    table.add({input.workload->name, number(time_of(times, kFloor).ns, 1), number(by_handle.ns, 1),
               number(by_handle.to_floor, 2), number(time_of(times, kLockedFloor).ns, 1),
               number(locked.ns, 1), number(locked.to_locked_floor, 2), number(shim.ns, 1),
               number(shim.to_locked_floor, 2), number(time_of(times, kXla).ns, 1),
               number(time_of(times, kFirstFit).ns, 1),
               number(time_of(times, kOffsetAllocator).ns, 1), number(time_of(times, kVma).ns, 1),
               number(time_of(times, kRmm).ns, 1)});
  }
  table.print();
  if (results.training) {
    const Summary& mean = *results.training;
    std::printf(
        "  geometric mean over %zu training traces: by handle %.2f x, locked with look-up %.2f x "
        "(%.1f ns), as the shim %.2f x\n",
        mean.inputs, mean.by_handle, mean.locked, mean.locked_ns, mean.as_the_shim);
  }
}

void print_latencies(const Results& results) {
  Table table(
      "Latency of a call in ns, through the thread-safe interface. steady: each operation's median "
      "over the rounds, without what the machine adds; first: in a new arena",
      {"input", "alloc p50", "p99", "p99.9", "max", "p99.9/p50", "steady p99.9", "/p50",
       "first p99.9", "max", "free p50", "p99", "p99.9", "max"});
  for (const InputResult& input : results.inputs) {
    const Latencies& all = input.latencies;
    const auto over = [](const Distribution& d) { return d.p50 > 0 ? d.p999 / d.p50 : 0; };
    table.add({input.workload->name, number(all.allocate.p50, 1), number(all.allocate.p99, 1),
               number(all.allocate.p999, 1), number(all.allocate.max, 0),
               number(over(all.allocate), 2), number(all.steady.p999, 1),
               number(over(all.steady), 2), number(all.first_allocate.p999, 1),
               number(all.first_allocate.max, 0), number(all.free.p50, 1), number(all.free.p99, 1),
               number(all.free.p999, 1), number(all.free.max, 0)});
  }
  table.print();
}

void print_fits(const Results& results) {
  std::vector<std::string> head{"input"};
  for (const Fitter fitter : kFitters) {
    head.push_back(describe(fitter));
    head.emplace_back("extent");
  }
  head.emplace_back("host B/live block");
  Table table(
      "Memory over the peak of live bytes as requested: the smallest region, or device, that "
      "serves all; extent: addresses used when there is plenty",
      std::move(head));
  for (const InputResult& input : results.inputs) {
    std::vector<std::string> row{input.workload->name};
    for (std::size_t i = 0; i < kFitters.size(); ++i) {
      const Fit fit = i < input.fits.size() ? input.fits[i] : Fit{};
      row.push_back(number(fit.least_capacity, 4));
      row.push_back(number(fit.extent, 4));
    }
    row.push_back(number(input.host_bytes_a_block, 1));
    table.add(std::move(row));
  }
  table.print();
}

void print_growth(const Results& results) {
  Table table(
      "Growth on demand with room in plenty: the most memory taken over the peak, and how often",
      {"input", "allocations", "regions: taken", "growths", "pages: taken", "growths"});
  for (const InputResult& input : results.inputs) {
    const auto fit_of = [&](Fitter fitter) {
      const auto place = static_cast<std::size_t>(
          std::find(kFitters.begin(), kFitters.end(), fitter) - kFitters.begin());
      return place < input.fits.size() ? input.fits[place] : Fit{};
    };
    const Fit grown = fit_of(Fitter::kGrown);
    const Fit mapped = fit_of(Fitter::kMapped);
    table.add({input.workload->name, std::to_string(input.workload->allocations),
               number(grown.taken, 4), std::to_string(grown.growths), number(mapped.taken, 4),
               std::to_string(mapped.growths)});
  }
  table.print();
}

void print_jittered(const Results& results) {
  std::vector<std::string> head{"allocator", "mean", "worst", "of"};
  for (const Workload* workload : results.jittered_of) {
    head.push_back(workload->name);
  }
  Table table("Jittered: least capacity over peak, each distinct size scaled by up to 6%",
              std::move(head));
  for (const JitteredFit& fit : results.jittered) {
    std::vector<std::string> row{describe(fit.fitter), number(fit.mean, 4), number(fit.worst, 4),
                                 fit.worst_input};
    for (const double mean : fit.means) {
      row.push_back(number(mean, 4));
    }
    table.add(std::move(row));
  }
  table.print();
}

void print_retrievable(const Results& results) {
  if (results.retrievable.empty()) {
    return;
  }
  Table table("What an arena of slices could give back, on a device a third larger than the peak",
              {"input", "% of what no block takes", "driver calls in 100 allocations"});
  Retrievable mean;
  const auto inputs = static_cast<double>(results.retrievable.size());
  for (std::size_t i = 0; i < results.retrievable.size(); ++i) {
    const Retrievable& of_input = results.retrievable[i];
    mean.share += of_input.share / inputs;
    mean.driver_calls += of_input.driver_calls / inputs;
    table.add({results.jittered_of[i]->name, fixed(100 * of_input.share, 1),
               fixed(100 * of_input.driver_calls, 2)});
  }
  table.add({"mean", fixed(100 * mean.share, 1), fixed(100 * mean.driver_calls, 2)});
  table.print();
}

void print_threads(const Results& results) {
  Table table("Threads on one arena", {"threads", "ns/pair, all together", "throughput over one",
                                       "least-served share", "throughput with own arenas"});
  for (const ThreadsTime& time : results.threads) {
    table.add({std::to_string(time.threads), number(time.ns_a_pair, 1), number(time.throughput, 2),
               fixed(time.least_share, 2), number(time.own_arenas, 2)});
  }
  table.print();
}

void print_regions(const Results& results) {
  Table table("Regions: ns per pair without a lock, " + results.regions_of,
              {"regions", "by handle", "with look-up"});
  for (const RegionsTime& time : results.regions) {
    table.add(
        {std::to_string(time.regions), number(time.by_handle_ns, 1), number(time.look_up_ns, 1)});
  }
  table.print();
}

}  // namespace

void print_tables(const Results& results) {
  print_inputs(results);
  print_pairs(results);
  print_latencies(results);
  print_fits(results);
  print_growth(results);
  print_jittered(results);
  print_retrievable(results);
  print_threads(results);
  print_regions(results);
}

}  // namespace cubfc::bench
