// Each thread plays operations of its own, over and over, until all are told to stop.
#include "scaling.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "arena_contenders.h"
#include "clock.h"
#include "play.h"
#include "workload.h"

namespace cubfc::bench {
namespace {

constexpr int kCounts[] = {1, 2, 4, 8, 16};
constexpr std::uint64_t kOpsAThread = 4000;

struct alignas(64) Count {  // a cache line for each thread
  std::uint64_t pairs = 0;
};

struct Turn {
  double ns_a_pair = 0;
  double least_share = 0;
};

// Stops between any two operations and frees what is live then.
void play_until(const std::atomic<bool>& stop, ByAddress& allocator, const Workload& workload,
                Count& count) {
  Handles<ByAddress> handles(workload.slots);
  std::uint64_t pairs = 0;
  while (!stop.load(std::memory_order_relaxed)) {
    for (const Op& op : workload.ops) {
      if (op.bytes != 0) {
        if (stop.load(std::memory_order_relaxed)) {
          break;
        }
        handles[op.slot] = allocator.allocate(op.bytes);
      } else {
        allocator.free(std::exchange(handles[op.slot], 0));
        ++pairs;
      }
    }
  }
  for (const ByAddress::Handle handle : handles) {
    allocator.free(handle);
  }
  count.pairs = pairs;
}

enum class Arenas : std::uint8_t { kShared, kOwn };

Turn play_together(const std::vector<Workload>& workloads, std::size_t threads, Arenas arenas,
                   double ns_a_turn) {
  std::uint64_t capacity = 0;
  for (std::size_t i = 0; i < threads; ++i) {
    capacity += ample_capacity(workloads[i]);
  }
  std::vector<std::unique_ptr<ByAddress>> allocators;
  for (std::size_t i = 0; i < (arenas == Arenas::kShared ? 1 : threads); ++i) {
    allocators.push_back(std::make_unique<ByAddress>(capacity));
  }
  std::vector<Count> counts(threads);
  std::atomic<bool> stop{false};
  std::latch ready(static_cast<std::ptrdiff_t>(threads) + 1);
  std::vector<std::thread> running;
  for (std::size_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      ready.arrive_and_wait();
      play_until(stop, *allocators[i % allocators.size()], workloads[i], counts[i]);
    });
  }
  ready.arrive_and_wait();
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double, std::nano>(ns_a_turn));
  stop.store(true, std::memory_order_relaxed);
  const double ns = ns_since(start);
  for (std::thread& thread : running) {
    thread.join();
  }
  double all = 0;
  double least = static_cast<double>(counts.front().pairs);
  for (const Count& count : counts) {
    all += static_cast<double>(count.pairs);
    least = std::min(least, static_cast<double>(count.pairs));
  }
  all = std::max(all, 1.0);
  return {ns / all, least * static_cast<double>(threads) / all};
}

}  // namespace

std::vector<ThreadsTime> measure_threads(int rounds, double ns_a_turn) {
  std::vector<Workload> workloads;
  for (std::uint64_t seed = 1; seed <= kCounts[std::size(kCounts) - 1]; ++seed) {
    workloads.push_back(from_trace(programs::synthetic_trace(kOpsAThread, seed),
                                   "thread_" + std::to_string(seed), Kind::kSynthetic));
  }
  std::vector<std::vector<double>> ns(std::size(kCounts));
  std::vector<std::vector<double>> throughputs(std::size(kCounts));
  std::vector<std::vector<double>> shares(std::size(kCounts));
  std::vector<std::vector<double>> own(std::size(kCounts));
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < std::size(kCounts); ++i) {
      const auto threads = static_cast<std::size_t>(kCounts[i]);
      const Turn turn = play_together(workloads, threads, Arenas::kShared, ns_a_turn);
      const Turn apart = play_together(workloads, threads, Arenas::kOwn, ns_a_turn);
      ns[i].push_back(turn.ns_a_pair);
      throughputs[i].push_back(ns[0].back() / turn.ns_a_pair);
      shares[i].push_back(turn.least_share);
      own[i].push_back(ns[0].back() / apart.ns_a_pair);
    }
  }
  std::vector<ThreadsTime> times;
  for (std::size_t i = 0; i < std::size(kCounts); ++i) {
    times.push_back(
        {kCounts[i], median(ns[i]), median(throughputs[i]), median(shares[i]), median(own[i])});
  }
  return times;
}

}  // namespace cubfc::bench
