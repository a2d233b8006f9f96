// The command line of device_bench. Knows nothing of CUDA.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace cubfc::bench {

enum class Section : std::uint8_t { kPairs, kLoop, kTrace, kGrowth, kIdle, kAll };

// Which two calls of the runtime make and end a block.
enum class Through : std::uint8_t {
  kMalloc,  // cudaMalloc, cudaFree
  kAsync,   // cudaMallocAsync, cudaFreeAsync
};
const char* describe(Through through);

struct DeviceArguments {
  bool help = false;
  bool quick = false;
  Section section = Section::kAll;
  std::chrono::milliseconds time_per_point{0};
  std::vector<Through> through;
  std::vector<std::uint64_t> pair_sizes;
  std::vector<std::uint64_t> threads;
  std::uint64_t live = 0;
  std::vector<std::uint64_t> streams;
  std::uint64_t loop_bytes = 0;
  std::uint64_t loop_iterations = 0;
  std::vector<std::string> traces;  // files; empty: a made-up one
  std::uint64_t scale = 1;
  std::vector<std::uint64_t> growth_sizes;  // each larger than the one before
  std::uint64_t idle_iterations = 0;
  std::string json_file;  // empty: none

  bool measures(Section wanted) const { return section == wanted || section == Section::kAll; }
};

inline constexpr const char* kDeviceUsage =
    R"(usage: device_bench pairs  [--sizes SIZE,...] [--threads N,...] [--through HOW] [--live N]
       device_bench loop   [--streams N,...] [--size SIZE] [--iterations N] [--through HOW]
       device_bench trace  FILE... [--scale N]
       device_bench growth [--sizes SIZE,...]
       device_bench idle   [--iterations N]
       device_bench all    [FILE...] [--through HOW]
  each also with       [--quick] [--seconds-per-point S] [--json FILE] [--help]

Measures what device memory costs a program that allocates through the CUDA runtime, on device 0, in
the mode that the environment sets: bare, or with libcubfc.so preloaded.

  pairs    the time of an allocation with its free, by size and by the number of threads; in one
           thread also how the times of single calls are distributed
  loop     the host's time to allocate, to have the block written in a stream and to free, streams
           taken in turn; and without the allocation, one block a stream, which is its floor
  trace    recorded allocations (CSV, the format of RMM's log) at full speed, memory not touched
  growth   the first allocation of the process, then one of each size for the first time
  idle     a program that allocates two blocks and then only launches
  all      everything, growth first, so that the first allocation is the first; without FILE a
           made-up trace

  --sizes SIZE,...        512,4KiB,64KiB,1MiB,2MiB,16MiB,64MiB,256MiB; of growth, which takes them in
                          ascending order, 2MiB,64MiB,1GiB,8GiB,32GiB
  --threads N,...         how many allocate at once (1,2,4,8)
  --through HOW           malloc: cudaMalloc and cudaFree; async: cudaMallocAsync and cudaFreeAsync,
                          whose pool then keeps what is freed; or malloc,async (malloc; of all, both)
  --live N                so many other blocks of the size are held meanwhile (0)
  --streams N,...         how many streams take turns (1,4)
  --size SIZE             of the loop's blocks (1MiB)
  --iterations N          of one round: of the loop (200), of idle (20000)
  --scale N               divides the trace's sizes by N (1); when it does not fit the device they
                          are divided by more, and the output says so
  --quick                 fewer and shorter points: some seconds for all, good for a test only
  --seconds-per-point S   about how long a point takes, its warm-up included (0.15; a unit may follow);
                          longer where three rounds or one pass of a trace take longer
  --json FILE             also writes all figures to FILE; null is what could not be measured, with
                          the reason
  --help                  this text

Example:
  LD_PRELOAD=./libcubfc.so CUBFC_PREALLOCATE=false device_bench pairs --threads 1 --json grow.json

Exit status: 0; 1 when a trace cannot be read, FILE not be written or a CUDA call fails that must
not; 2 for a wrong argument; 77 when there is no device or no driver.
)";

// The arguments with the defaults of their section, or what is wrong with them.
std::variant<DeviceArguments, std::string> parse_device_arguments(int count,
                                                                  const char* const* values);

}  // namespace cubfc::bench
