// One arena under eight threads. Run under ThreadSanitizer it proves more than it asserts.
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "arena/arena.h"
#include "arena/made_up_memory.h"
#include "catch.h"

using namespace cubfc::arena;

TEST_CASE("eight threads share one arena without a block being handed out twice") {
  constexpr int kThreads = 8;
  MadeUpMemory memory(2 * kGiB);
  Budget budget(kGiB);
  Arena arena(memory, budget, {.preallocate_bytes = 64 * kMiB, .whole = true});
  // One owner for each granule of the addresses that regions can have: no two have the same, and
  // two threads give all that is unused back eight times each.
  constexpr std::uint64_t kSpan = 17 * kGiB;
  std::vector<std::atomic<std::uint8_t>> owner(kSpan / kGranuleBytes);
  const Address origin = 0x7f0000000000;
  std::atomic<int> clashes{0};

  const auto mark = [&](Address address, std::uint8_t from, std::uint8_t to) {
    std::uint8_t expected = from;
    if (!owner[(address - origin) / kGranuleBytes].compare_exchange_strong(expected, to)) {
      ++clashes;
    }
  };
  std::vector<std::thread> threads;
  for (std::uint8_t number = 1; number <= kThreads; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937 random(number);
      std::vector<Address> mine;
      for (int i = 0; i < 4000; ++i) {
        if (mine.size() < 40 && random() % 5 < 3) {
          const Allocation got = arena.allocate(1 + random() % (1U << (9 + random() % 15)));
          if (got.address != 0) {
            mark(got.address, 0, number);
            clashes += arena.region_at(got.address) == 0 ? 1 : 0;
            mine.push_back(got.address);
          }
        } else if (!mine.empty()) {
          const std::size_t at = random() % mine.size();
          mark(mine[at], number, 0);
          const auto retired = arena.retire(mine[at]);
          if (!retired || arena.retire(mine[at])) {
            ++clashes;
          } else {
            arena.reclaim(*retired);
          }
          mine[at] = mine.back();
          mine.pop_back();
        }
        if (i % 500 == 0) {
          if (number <= 2) {
            arena.release_unused();
          }
          (void)arena.stats();
          (void)arena.snapshot();
        }
      }
      for (const Address address : mine) {
        mark(address, number, 0);
        arena.reclaim(*arena.retire(address));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(clashes == 0);
  CHECK(arena.verify() == "");
  arena.release_unused();
  CHECK(budget.used() == 0);
  CHECK(memory.wrong_releases == 0);
}

TEST_CASE("threads that miss at the same moment do not each preallocate") {
  for (int round = 0; round < 20; ++round) {
    MadeUpMemory memory(4 * kGiB);
    Budget budget;
    Arena arena(memory, budget, {.preallocate_bytes = kGiB, .whole = true});
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] { arena.allocate(kMiB); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    CHECK(memory.asked.size() == 1);
  }
}
