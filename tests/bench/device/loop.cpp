// Programs as they launch: one that allocates in every iteration, and one that hardly allocates.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "clock.h"
#include "device.h"
#include "sections.h"

namespace cubfc::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFewestRounds = 3;
constexpr std::size_t kMostRounds = 15;
// So often a round looks whether its time is over.
constexpr std::uint64_t kIterationsPerLook = 16;

using Streams = std::vector<std::unique_ptr<Stream>>;

Streams make_streams(std::uint64_t count) {
  Streams streams;
  for (std::uint64_t i = 0; i < count; ++i) {
    streams.push_back(std::make_unique<Stream>());
  }
  return streams;
}

struct Round {
  std::uint64_t iterations = 0;
  IterationTimes times;
};

// Ends after so many iterations, or early when they take longer than a point may.
template <typename Iteration>
Round play_round(std::uint64_t iterations, double ns_limit, Iteration iteration) {
  Round round;
  const Clock::time_point start = Clock::now();
  while (round.iterations < iterations) {
    iteration(round.iterations++);
    if (round.iterations % kIterationsPerLook == 0 && ns_since(start) > ns_limit) {
      break;
    }
  }
  const double host_ns = ns_since(start);
  must("cudaDeviceSynchronize", cudaDeviceSynchronize());
  const auto count = static_cast<double>(round.iterations);
  round.times = {host_ns / count, ns_since(start) / count};
  return round;
}

IterationTimes median_of(const std::vector<Round>& rounds) {
  std::vector<double> host;
  std::vector<double> done;
  for (const Round& round : rounds) {
    host.push_back(round.times.host_ns);
    done.push_back(round.times.done_ns);
  }
  return {median(std::move(host)), median(std::move(done))};
}

void play(LoopPoint& point, const DeviceArguments& arguments, const Streams& streams,
          const HeldBlocks& blocks) {
  const double ns = std::chrono::duration<double, std::nano>(arguments.time_per_point).count();
  const auto stream_of = [&](std::uint64_t i) { return streams[i % streams.size()]->get(); };
  const auto allocating = [&](std::uint64_t i) {
    void* block = nullptr;
    must("the loop's allocation", allocate(point.through, &block, point.bytes, stream_of(i)));
    must("cudaMemsetAsync", cudaMemsetAsync(block, 1, point.bytes, stream_of(i)));
    must("the loop's free", free_block(point.through, block, stream_of(i)));
  };
  const auto floor = [&](std::uint64_t i) {
    must("cudaMemsetAsync",
         cudaMemsetAsync(blocks.at(i % streams.size()), 1, point.bytes, stream_of(i)));
  };
  const std::uint64_t count = arguments.loop_iterations;
  play_round(count, ns / 10, floor);  // warms up
  play_round(count, ns / 10, allocating);
  std::vector<Round> floors;
  std::vector<Round> loops;
  point.iterations = count;
  // In turns, so that what else the machine does meets both alike.
  const Clock::time_point start = Clock::now();
  while (loops.size() < kFewestRounds || (loops.size() < kMostRounds && ns_since(start) < ns)) {
    floors.push_back(play_round(count, ns, floor));
    loops.push_back(play_round(count, ns, allocating));
    point.iterations =
        std::min({point.iterations, floors.back().iterations, loops.back().iterations});
  }
  point.rounds = loops.size();
  point.floor = median_of(floors);
  point.allocating = median_of(loops);
}

void measure(LoopPoint& point, const DeviceArguments& arguments) {
  // The floor's blocks, and the one that is allocated beside them.
  point.reason = reason_not_to_hold(point.streams + 1, point.bytes);
  if (point.reason) {
    return;
  }
  const Streams streams = make_streams(point.streams);
  const HeldBlocks blocks(point.through, point.streams, point.bytes);
  point.reason = blocks.reason();
  if (point.reason) {
    return;
  }
  try {
    play(point, arguments, streams, blocks);
  } catch (const CudaError& error) {
    point.reason = error.what();
    cudaDeviceSynchronize();  // nothing may use the blocks when they go
  }
}

}  // namespace

std::vector<LoopPoint> measure_loop(const DeviceArguments& arguments) {
  std::vector<LoopPoint> points;
  for (const Through through : arguments.through) {
    for (const std::uint64_t streams : arguments.streams) {
      LoopPoint& point = points.emplace_back();
      point.through = through;
      point.streams = streams;
      point.bytes = arguments.loop_bytes;
      measure(point, arguments);
    }
  }
  return points;
}

Idle measure_idle(const DeviceArguments& arguments) {
  constexpr std::uint64_t kWritten = 4096;
  constexpr std::uint64_t kHeld = 1U << 20;
  constexpr std::uint64_t kLaunchesPerSync = 64;
  Idle idle;
  idle.launches = arguments.idle_iterations;
  const Stream stream;
  const HeldBlocks blocks(Through::kMalloc, 2, kHeld);
  idle.reason = blocks.reason();
  if (idle.reason) {
    return idle;
  }
  const auto seconds = [&](std::uint64_t launches) {
    const Clock::time_point start = Clock::now();
    for (std::uint64_t i = 1; i <= launches; ++i) {
      must("cudaMemsetAsync", cudaMemsetAsync(blocks.at(i % 2), 1, kWritten, stream.get()));
      if (i % kLaunchesPerSync == 0 || i == launches) {
        must("cudaStreamSynchronize", cudaStreamSynchronize(stream.get()));
      }
    }
    return ns_since(start) * 1e-9;
  };
  seconds(idle.launches / 10 + 1);  // warms up
  const double limit = std::chrono::duration<double>(arguments.time_per_point).count();
  std::vector<double> rounds;
  const Clock::time_point start = Clock::now();
  while (rounds.size() < kFewestRounds ||
         (rounds.size() < kMostRounds && ns_since(start) * 1e-9 < limit)) {
    rounds.push_back(seconds(idle.launches));
  }
  idle.rounds = rounds.size();
  idle.seconds = median(std::move(rounds));
  return idle;
}

}  // namespace cubfc::bench
