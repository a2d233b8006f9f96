// The arena over a source with pages: growth is contiguous, and memory moves to where it is of use.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "arena/arena.h"
#include "arena/made_up_memory.h"
#include "arena/made_up_pages.h"
#include "arena/watching.h"
#include "catch.h"

using namespace cubfc::arena;

namespace {

constexpr std::uint64_t kPage = 2 * kMiB;

struct Fixture {
  explicit Fixture(std::uint64_t limit = 64 * kMiB, std::uint64_t device = kGiB,
                   Options options = {.largest_bytes = kGiB})
      : memory(device, kPage), budget(limit), arena(memory, budget, options), watching(arena) {}

  Address take(std::uint64_t bytes) {
    const Allocation got = arena.allocate(bytes);
    REQUIRE(got.address != 0);
    REQUIRE(memory.is_mapped(got.address, bytes));
    return got.address;
  }
  Failure failure_of(std::uint64_t bytes) { return arena.allocate(bytes).failure; }

  void check() const {
    CHECK(arena.verify() == "");
    CHECK(watching.disagreement() == "");
    CHECK(memory.wrong_calls == 0);
    CHECK(memory.mapped_bytes() == arena.stats().pool_bytes);
    CHECK(budget.used() == arena.stats().pool_bytes);
    CHECK(memory.spare_bytes() == 0);
  }

  // The bytes of pages that hold some part of a block that is not free.
  std::uint64_t held_bytes() const {
    std::set<Address> pages;
    for (const BlockSnapshot& block : arena.snapshot()) {
      for (Address page = round_down(block.address, kPage);
           block.state != BlockState::kFree && page < block.address + block.bytes; page += kPage) {
        pages.insert(page);
      }
    }
    return pages.size() * kPage;
  }

  MadeUpPages memory;
  Budget budget;
  Arena arena;
  Watching watching;
};

}  // namespace

TEST_CASE("pages: growth is contiguous, so that what is free coalesces across it") {
  Fixture f;
  const Address first = f.take(3 * kMiB);
  const Address second = f.take(9 * kMiB);
  CHECK(second > first);
  REQUIRE(f.arena.free(first));
  REQUIRE(f.arena.free(second));
  CHECK(f.take(12 * kMiB) == first);
  CHECK(f.arena.stats().pool_bytes == 12 * kMiB);
  CHECK(f.memory.ranges() == 1);
  f.check();
}

TEST_CASE("pages: what is free in pieces serves a request that needs all of it") {
  Fixture f(64 * kMiB);
  std::vector<Address> blocks;
  for (int i = 0; i < 32; ++i) {
    blocks.push_back(f.take(2 * kMiB));
  }
  CHECK(f.failure_of(1) == Failure::kOverLimit);
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    REQUIRE(f.arena.free(blocks[i]));
  }
  f.check();
  const Address large = f.take(32 * kMiB);
  CHECK(f.arena.stats().pool_bytes == 64 * kMiB);
  CHECK(f.failure_of(1) == Failure::kOverLimit);
  f.check();
  REQUIRE(f.arena.free(large));
  for (std::size_t i = 1; i < blocks.size(); i += 2) {
    REQUIRE(f.arena.free(blocks[i]));
  }
  f.take(64 * kMiB);
  f.check();
}

TEST_CASE("pages: of free blocks only that is moved which the source has no more of") {
  Fixture f(64 * kMiB, 16 * kMiB);  // the device is what is short
  const Address large = f.take(6 * kMiB);
  f.take(2 * kMiB);
  f.take(4 * kMiB);
  REQUIRE(f.arena.free(large));
  REQUIRE(f.memory.free_bytes() == 4 * kMiB);
  const int unmaps = f.memory.unmaps;
  f.take(8 * kMiB);
  CHECK(f.memory.free_bytes() == 0);
  CHECK(f.memory.unmaps == unmaps + 1);
  CHECK(f.memory.is_mapped(large + 4 * kMiB, 2 * kMiB));
  CHECK(f.arena.stats().pool_bytes == 16 * kMiB);
  f.check();
}

TEST_CASE(
    "pages: a growth that fails leaves nothing with the source, and all that there is can be had") {
  Fixture f(64 * kMiB, 16 * kMiB);
  const Address large = f.take(6 * kMiB);
  f.take(4 * kMiB);
  REQUIRE(f.arena.free(large));
  CHECK(f.failure_of(14 * kMiB) == Failure::kExhausted);
  CHECK(f.memory.free_bytes() + f.arena.stats().pool_bytes == 16 * kMiB);
  f.check();
  f.take(12 * kMiB);
  f.check();
}

TEST_CASE("pages: a request that needs all that is free, in the arena and beyond it, is served") {
  for (const bool keeps : {true, false}) {
    Fixture f(64 * kMiB, 16 * kMiB);
    f.memory.keeps_what_there_was = keeps;
    const Address large = f.take(6 * kMiB);
    f.take(2 * kMiB);
    REQUIRE(f.arena.free(large));
    f.take(14 * kMiB);
    CHECK(f.memory.free_bytes() == 0);
    f.check();
  }
}

TEST_CASE("pages: waiting blocks keep their memory") {
  Fixture f(8 * kMiB);
  const Address block = f.take(4 * kMiB);
  f.take(2 * kMiB);
  const auto retired = f.arena.retire(block);
  REQUIRE(retired);
  CHECK(f.failure_of(6 * kMiB) != Failure::kNone);
  CHECK(f.memory.is_mapped(block, 4 * kMiB));
  f.arena.reclaim(*retired);
  f.take(6 * kMiB);
  f.check();
}

TEST_CASE("pages: a device with less than the limit is used to its last page") {
  Fixture f(kGiB, 32 * kMiB);
  std::vector<Address> blocks;
  for (int i = 0; i < 16; ++i) {
    blocks.push_back(f.take(2 * kMiB));
  }
  CHECK(f.failure_of(kMiB) == Failure::kExhausted);
  REQUIRE(f.arena.free(blocks[3]));
  REQUIRE(f.arena.free(blocks[9]));
  f.take(4 * kMiB);
  CHECK(f.memory.free_bytes() == 0);
  f.check();
}

TEST_CASE("pages: what is preallocated is mapped at once, as far as there is memory") {
  Fixture plenty(kGiB, kGiB, {.preallocate_bytes = 100 * kMiB, .largest_bytes = kGiB});
  plenty.take(1);
  CHECK(plenty.memory.maps == 1);
  CHECK(plenty.arena.stats().pool_bytes == 100 * kMiB);
  Fixture less(kGiB, 64 * kMiB, {.preallocate_bytes = 100 * kMiB, .largest_bytes = kGiB});
  less.take(1);
  CHECK(less.arena.stats().pool_bytes <= 64 * kMiB);
  CHECK(less.arena.stats().pool_bytes >= 56 * kMiB);
  less.check();
  Fixture limited(30 * kMiB, kGiB, {.preallocate_bytes = 100 * kMiB, .largest_bytes = kGiB});
  limited.take(1);
  CHECK(limited.arena.stats().pool_bytes == 30 * kMiB);
  limited.check();
}

TEST_CASE("pages: whole pages without a block are given back, and only those") {
  Fixture f(64 * kMiB);
  const Address low = f.take(700 * kKiB);
  const Address high = f.take(20 * kMiB);
  const Address last = f.take(300 * kKiB);
  REQUIRE(f.arena.free(high));
  const std::uint64_t before = f.arena.stats().pool_bytes;
  const std::uint64_t released = f.arena.release_unused();
  CHECK(released >= 16 * kMiB);
  CHECK(f.arena.stats().pool_bytes == before - released);
  CHECK(f.memory.is_mapped(low, 700 * kKiB));
  CHECK(f.memory.is_mapped(last, 300 * kKiB));
  CHECK(f.held_bytes() == f.arena.stats().pool_bytes);
  CHECK(f.arena.release_unused() == 0);
  f.check();
  CHECK(f.take(20 * kMiB) == high);  // the hole is mapped again
  f.check();
}

TEST_CASE("pages: an ended context's memory is forgotten, and the next begins anew") {
  Fixture f;
  f.take(5 * kMiB);
  f.arena.abandon();
  CHECK(f.budget.used() == 0);
  CHECK(f.arena.stats().pool_bytes == 0);
  f.arena.begin({.largest_bytes = kGiB});
  CHECK(f.arena.allocate(5 * kMiB).address != 0);
}

TEST_CASE("pages: a context that ends while its arena grows leaves no memory counted") {
  Fixture f;
  f.memory.before_map = [&] { f.arena.abandon(); };
  CHECK(f.arena.allocate(5 * kMiB).address == 0);
  f.memory.before_map = nullptr;
  CHECK(f.budget.used() == 0);
  CHECK(f.memory.mapped_bytes() == 0);
  f.arena.begin({.largest_bytes = kGiB});
  CHECK(f.arena.allocate(5 * kMiB).address != 0);
  CHECK(f.arena.verify() == "");
}

// The promise of this arena, over random sizes, also when the first range of addresses is used up.
TEST_CASE("pages: no request fails while the limit less the pages in use is enough for it") {
  const auto play = [](std::uint32_t seed, std::uint64_t limit, std::uint64_t range,
                       int operations) {
    INFO("seed " << seed);
    Fixture f(limit, 4 * kGiB, {.largest_bytes = range});
    std::mt19937 random(seed);
    std::vector<Address> live;
    int failures = 0;
    for (int i = 0; i < operations; ++i) {
      if (random() % 100 < 52 || live.empty()) {
        const std::uint64_t bytes = 1 + random() % (std::uint64_t{1} << (9 + random() % 18));
        const Allocation got = f.arena.allocate(bytes);
        if (got.address != 0) {
          live.push_back(got.address);
          continue;
        }
        ++failures;
        const std::uint64_t pages = round_up(block_bytes_for(bytes), kPage);
        if (limit - f.held_bytes() >= pages) {
          FAIL(bytes << " bytes failed (" << describe(got.failure) << ") with " << f.held_bytes()
                     << " of " << limit << " held");
        }
      } else {
        const std::size_t at = random() % live.size();
        REQUIRE(f.arena.free(live[at]));
        live[at] = live.back();
        live.pop_back();
      }
    }
    CHECK(failures > 0);
    f.check();
    return f.memory.ranges();
  };
  const int operations = std::getenv("CUBFC_TEST_SEEDS") != nullptr ? 1'000'000 : 300'000;
  CHECK(play(1, 256 * kMiB, kGiB, operations) == 1);
  CHECK(play(2, 64 * kMiB, kGiB, operations) == 1);
  // A range has four times the bytes of the largest request; here it is no larger than the limit.
  CHECK(play(3, 256 * kMiB, 64 * kMiB, operations) > 1);
}

TEST_CASE("pages: small blocks spread over every page do not keep a large one from its addresses") {
  Fixture f(64 * kMiB, kGiB, {.largest_bytes = 32 * kMiB});
  std::vector<Address> large;
  std::vector<Address> small;
  for (int round = 0; round < 12; ++round) {  // small blocks all over the addresses
    for (int i = 0; i < 8; ++i) {
      large.push_back(f.take(2 * kMiB - 64 * kKiB));
      small.push_back(f.take(32 * kKiB));
    }
    for (const Address block : large) {
      REQUIRE(f.arena.free(block));
    }
    large.clear();
    while (small.size() > 6) {
      REQUIRE(f.arena.free(small.front()));
      small.erase(small.begin());
    }
    const std::uint64_t left = f.budget.limit() - f.held_bytes();
    REQUIRE(f.arena.free(f.take(std::min(left, 32 * kMiB) - kPage)));
    f.check();
  }
}

TEST_CASE("pages: whatever call of the source fails, nothing is lost and what follows works") {
  for (long after = 0; after < 60; ++after) {
    INFO("call " << after << " fails");
    Fixture f(32 * kMiB);
    std::vector<Address> blocks;
    f.memory.fail_after = after;
    int failures = 0;
    for (int i = 0; i < 20; ++i) {
      const Allocation got = f.arena.allocate(kPage);
      if (got.address != 0) {
        blocks.push_back(got.address);
      } else {
        failures += got.failure == Failure::kSourceError ? 1 : 0;
      }
    }
    for (std::size_t i = 0; i < blocks.size(); i += 2) {
      REQUIRE(f.arena.free(blocks[i]));
    }
    const Allocation large = f.arena.allocate(10 * kMiB);
    f.arena.release_unused();
    const bool failed = f.memory.fail_after < 0;
    f.memory.fail_after = -1;
    CHECK(f.arena.verify() == "");
    CHECK(f.memory.mapped_bytes() == f.arena.stats().pool_bytes);
    CHECK(f.budget.used() == f.arena.stats().pool_bytes);
    if (large.address == 0) {
      CHECK(f.arena.allocate(10 * kMiB).address != 0);
    }
    f.check();
    if (!failed) {
      CHECK(failures == 0);
      return;
    }
  }
}

TEST_CASE("pages: eight threads share one arena without a block being handed out twice") {
  constexpr int kThreads = 8;
  Fixture f(96 * kMiB);
  std::atomic<int> wrong{0};
  std::mutex mutex;
  std::set<std::pair<Address, Address>> held;  // ranges
  std::vector<std::thread> threads;
  for (int number = 1; number <= kThreads; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(static_cast<std::uint32_t>(number));
      std::vector<std::pair<Address, Address>> mine;
      for (int i = 0; i < 1500; ++i) {
        if (mine.size() < 12 && random() % 5 < 3) {
          const std::uint64_t bytes = 1 + random() % (1U << (9 + random() % 14));
          const Allocation got = f.arena.allocate(bytes);
          if (got.address != 0) {
            mine.emplace_back(got.address, got.address + bytes);
            const std::lock_guard lock(mutex);
            const auto next = held.lower_bound({got.address, 0});
            wrong += next != held.end() && next->first < got.address + bytes;
            wrong += next != held.begin() && std::prev(next)->second > got.address;
            wrong += !f.memory.is_mapped(got.address, bytes);
            held.insert(mine.back());
          }
        } else if (!mine.empty()) {
          const std::size_t at = random() % mine.size();
          {
            const std::lock_guard lock(mutex);
            wrong += !f.memory.is_mapped(mine[at].first, mine[at].second - mine[at].first);
            held.erase(mine[at]);
          }
          wrong += !f.arena.free(mine[at].first);
          mine[at] = mine.back();
          mine.pop_back();
        }
        if (i % 300 == 0) {
          f.arena.release_unused();
        }
      }
      for (const auto& block : mine) {
        {
          const std::lock_guard lock(mutex);
          held.erase(block);
        }
        wrong += !f.arena.free(block.first);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
  f.arena.release_unused();
  CHECK(f.arena.stats().pool_bytes == 0);
  f.check();
}
