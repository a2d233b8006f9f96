// Many threads allocate, write, verify and free at once, each with a stream of its own, and hand
// blocks to one another: a block that two of them got, or that was handed out while a stream still
// wrote to it, shows as a wrong byte. Arguments: [threads] [rounds].
#include <atomic>
#include <cstdio>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "driver.h"
#include "pattern.h"

namespace {

using programs::Driver;
using programs::must;

struct Block {
  CUdeviceptr address;
  std::size_t bytes;
  std::uint32_t seed;
};

// Blocks that one thread leaves for another to verify and free.
class Exchange {
 public:
  void put(const Block& block) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(block);
  }

  std::optional<Block> take() {
    const std::lock_guard lock(mutex_);
    if (blocks_.empty()) {
      return std::nullopt;
    }
    const Block block = blocks_.back();
    blocks_.pop_back();
    return block;
  }

 private:
  std::mutex mutex_;
  std::vector<Block> blocks_;
};

class Worker {
 public:
  Worker(const Driver& driver, Exchange& exchange, std::atomic<std::size_t>& mismatches)
      : driver_(driver), exchange_(exchange), mismatches_(mismatches) {}

  void run(CUcontext context, std::uint32_t id, int rounds) {
    must(driver_, "cuCtxSetCurrent", driver_.cuCtxSetCurrent(context));
    must(driver_, "cuStreamCreate", driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    std::mt19937 random(id);
    for (int round = 0; round < rounds; ++round) {
      const std::uint32_t seed = (id << 20U) + static_cast<std::uint32_t>(round);
      Block block{0, 1 + random() % (round % 16 == 0 ? 4U << 20U : 16U << 10U), seed};
      must(driver_, "cuMemAlloc", driver_.cuMemAlloc(&block.address, block.bytes));
      programs::write_pattern(driver_, block.address, block.bytes, block.seed, stream_);
      if (random() % 4 == 0) {
        exchange_.put(block);
        if (const std::optional<Block> other = exchange_.take()) {
          block = *other;
        } else {
          continue;
        }
      }
      finish(block);
      free_under_a_pending_write(random);
    }
    must(driver_, "cuStreamDestroy", driver_.cuStreamDestroy(stream_));
  }

  void finish(const Block& block) {
    mismatches_ += programs::count_mismatches(driver_, block.address, block.bytes, block.seed);
    must(driver_, "cuMemFree", driver_.cuMemFree(block.address));
  }

 private:
  // The write is still queued when the block is freed. It must not reach whoever gets the block
  // next.
  void free_under_a_pending_write(std::mt19937& random) {
    const std::size_t bytes = 1 + random() % (64U << 10U);
    CUdeviceptr block = 0;
    must(driver_, "cuMemAlloc", driver_.cuMemAlloc(&block, bytes));
    must(driver_, "cuMemsetD8Async", driver_.cuMemsetD8Async(block, 0xee, bytes, stream_));
    must(driver_, "cuMemFree", driver_.cuMemFree(block));
  }

  const Driver& driver_;
  Exchange& exchange_;
  std::atomic<std::size_t>& mismatches_;
  CUstream stream_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const Driver driver = programs::open_driver(programs::take_via(argc, argv));
  const std::uint64_t threads = argc > 1 ? programs::number_argument("threads", argv[1]) : 4;
  const std::uint64_t rounds = argc > 2 ? programs::number_argument("rounds", argv[2]) : 200;
  CUcontext const context = programs::use_device(driver, 0);

  Exchange exchange;
  std::atomic<std::size_t> mismatches = 0;
  std::vector<std::thread> running;
  running.reserve(threads);
  for (std::uint32_t id = 0; id < threads; ++id) {
    running.emplace_back([&, id] {
      Worker(driver, exchange, mismatches).run(context, id + 1, static_cast<int>(rounds));
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  Worker last(driver, exchange, mismatches);
  while (const std::optional<Block> block = exchange.take()) {
    last.finish(*block);
  }
  std::printf("%llu threads, %llu rounds each: %zu wrong bytes\n",
              static_cast<unsigned long long>(threads), static_cast<unsigned long long>(rounds),
              mismatches.load());
  return mismatches == 0 ? 0 : 1;
}
