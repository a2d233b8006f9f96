// An allocation and its free, over and over, in one thread and in several. Rounds end by time: what
// is fast in one mode takes a thousand times as long in another.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "clock.h"
#include "device.h"
#include "sections.h"

namespace cubfc::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;
// Shares of a point's time.
constexpr double kWarmUp = 0.1;
constexpr double kRound = 0.12;
constexpr double kSingleCalls = 0.3;
// From here on a look at the clock after each batch costs nothing.
constexpr double kLongBatchNs = 50e3;
constexpr std::size_t kMostCalls = 1U << 19;

struct Turn {
  std::uint64_t pairs = 0;
  std::uint64_t batches = 0;
  double pairs_ns = 0;
  double sync_ns = 0;
};

// One thread's part in a point.
class Worker {
 public:
  explicit Worker(const PairPoint& point) : through_(point.through), bytes_(point.bytes) {}

  // Nothing more is done after the first failure.
  Turn play(double ns_limit) {
    Turn turn;
    std::uint64_t batch = synchronizes() ? kPairsPerBatch : 1;
    while (!failure_ && turn.pairs_ns + turn.sync_ns < ns_limit) {
      const Clock::time_point start = Clock::now();
      for (std::uint64_t i = 0; i < batch && !failure_; ++i) {
        pair();
      }
      const double spent = ns_since(start);
      turn.pairs += batch;
      turn.pairs_ns += spent;
      turn.sync_ns += synchronize();
      ++turn.batches;
      if (batch < kPairsPerBatch && spent < kLongBatchNs) {
        batch *= 2;
      }
    }
    return turn;
  }

  // The ticks of single calls are added to both.
  void time_calls(double ns_limit, std::vector<std::uint64_t>& allocations,
                  std::vector<std::uint64_t>& frees) {
    const Clock::time_point start = Clock::now();
    while (!failure_ && ns_since(start) < ns_limit && frees.size() < kMostCalls) {
      void* block = nullptr;
      const std::uint64_t before = ticks_before();
      const cudaError_t allocated = allocate(through_, &block, bytes_, stream_.get());
      const std::uint64_t between = ticks_after();
      const std::uint64_t again = ticks_before();
      const cudaError_t freed =
          allocated == cudaSuccess ? free_block(through_, block, stream_.get()) : cudaSuccess;
      const std::uint64_t after = ticks_after();
      note("the allocation", allocated);
      note("the free", freed);
      allocations.push_back(between - before);
      frees.push_back(after - again);
      if (frees.size() % kPairsPerBatch == 0) {
        synchronize();
      }
    }
    synchronize();
  }

  const Reason& failure() const { return failure_; }

 private:
  bool synchronizes() const { return through_ == Through::kAsync; }

  void pair() {
    void* block = nullptr;
    const cudaError_t allocated = allocate(through_, &block, bytes_, stream_.get());
    if (allocated != cudaSuccess) {
      note("the allocation", allocated);
      return;
    }
    note("the free", free_block(through_, block, stream_.get()));
  }

  double synchronize() {
    if (!synchronizes()) {
      return 0;
    }
    const Clock::time_point start = Clock::now();
    note("cudaStreamSynchronize", cudaStreamSynchronize(stream_.get()));
    return ns_since(start);
  }

  void note(const char* call, cudaError_t error) {
    if (error != cudaSuccess && !failure_) {
      failure_ = take_error(call, error);
    }
  }

  Through through_;
  std::uint64_t bytes_;
  Stream stream_;
  Reason failure_;
};

double quantile(const std::vector<std::uint64_t>& sorted, double share, const TickScale& scale) {
  const auto index = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return scale.ns(sorted[std::min(index, sorted.size() - 1)]);
}

Quantiles quantiles_of(std::vector<std::uint64_t> ticks, const TickScale& scale) {
  std::sort(ticks.begin(), ticks.end());
  Quantiles quantiles;
  quantiles.calls = ticks.size();
  if (!ticks.empty()) {
    quantiles.p50_ns = quantile(ticks, 0.5, scale);
  }
  if (ticks.size() >= 100) {
    quantiles.p99_ns = quantile(ticks, 0.99, scale);
  }
  if (ticks.size() >= 1000) {
    quantiles.p999_ns = quantile(ticks, 0.999, scale);
  }
  return quantiles;
}

// What each thread did in each round.
using Turns = std::vector<std::vector<Turn>>;

void summarize(const Turns& rounds, PairPoint& point) {
  std::vector<double> rates;
  std::vector<double> sync_ns;
  for (const std::vector<Turn>& threads : rounds) {
    double pairs_per_ns = 0;
    for (const Turn& turn : threads) {
      point.pairs += turn.pairs;
      pairs_per_ns += static_cast<double>(turn.pairs) / turn.pairs_ns;
      sync_ns.push_back(turn.sync_ns / static_cast<double>(turn.batches));
    }
    rates.push_back(pairs_per_ns);
  }
  const double rate = median(std::move(rates));
  point.pairs_per_second = rate * 1e9;
  point.ns_per_pair = static_cast<double>(point.threads) / rate;
  if (point.through == Through::kAsync) {
    point.sync_ns_per_batch = median(std::move(sync_ns));
  }
}

// All threads start each round at once. With one of them its single calls are timed at the end.
void play_rounds(PairPoint& point, double ns) {
  const auto count = static_cast<std::size_t>(point.threads);
  Turns rounds(kRounds, std::vector<Turn>(count));
  std::deque<Worker> workers;  // made here: what they throw must not end a thread
  for (std::size_t i = 0; i < count; ++i) {
    workers.emplace_back(point);
  }
  std::vector<std::uint64_t> allocations;
  std::vector<std::uint64_t> frees;
  std::barrier together(static_cast<std::ptrdiff_t>(count));
  const auto work = [&](std::size_t index) {
    Worker& worker = workers[index];
    worker.play(kWarmUp * ns);
    for (std::vector<Turn>& round : rounds) {
      together.arrive_and_wait();
      round[index] = worker.play(kRound * ns);
    }
    if (count == 1) {
      worker.time_calls(kSingleCalls * ns, allocations, frees);
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back(work, i);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Worker& worker : workers) {
    if (worker.failure()) {
      point.reason = worker.failure();
      return;
    }
  }
  summarize(rounds, point);
  if (count == 1) {
    const TickScale scale = calibrate_ticks();
    point.allocate = quantiles_of(std::move(allocations), scale);
    point.free = quantiles_of(std::move(frees), scale);
  }
}

void measure(PairPoint& point, double ns) {
  point.reason = reason_not_to_hold(point.live + point.threads, point.bytes);
  if (point.reason) {
    return;
  }
  const HeldBlocks live(point.through, point.live, point.bytes);
  point.reason = live.reason();
  if (!point.reason) {
    play_rounds(point, ns);
  }
}

}  // namespace

std::vector<PairPoint> measure_device_pairs(const DeviceArguments& arguments) {
  const double ns = std::chrono::duration<double, std::nano>(arguments.time_per_point).count();
  std::vector<PairPoint> points;
  for (const Through through : arguments.through) {
    for (const std::uint64_t threads : arguments.threads) {
      for (const std::uint64_t bytes : arguments.pair_sizes) {
        PairPoint& point = points.emplace_back();
        point.through = through;
        point.bytes = bytes;
        point.threads = threads;
        point.live = arguments.live;
        measure(point, ns);
      }
    }
  }
  return points;
}

}  // namespace cubfc::bench
