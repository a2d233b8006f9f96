// How an arena takes memory from its source and gives it back.
#include <thread>
#include <utility>

#include "arena/arena.h"
#include "arena/made_up_memory.h"
#include "catch.h"

using namespace cubfc::arena;

namespace {

void give(Arena& arena, Address address) {
  arena.free(address);
}

}  // namespace

TEST_CASE("preallocation asks the source once, and later requests not at all") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {3 * kGiB});
  CHECK(memory.asked.empty());  // nothing before the first allocation
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(arena.allocate(kMiB).address != 0);
  }
  CHECK(memory.asked == std::vector<std::uint64_t>{3 * kGiB});
}

TEST_CASE("preallocation backs off by tenths when the device has less") {
  MadeUpMemory memory(40 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {54 * kGiB});
  REQUIRE(arena.allocate(kMiB).address != 0);
  CHECK(arena.stats().pool_bytes > 36 * kGiB);
  CHECK(memory.asked.size() == 4);  // 54, 48.6, 43.7 fail; 39.4 is there
}

TEST_CASE("a first request larger than the preallocation still succeeds in one region") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {3 * kGiB});
  REQUIRE(arena.allocate(3800 * kMiB).address != 0);
  CHECK(memory.asked.size() == 1);
}

TEST_CASE("many small requests reach past the preallocation to nearly all of the device") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {3 * kGiB});
  std::uint64_t got = 0;
  while (arena.allocate(kMiB).address != 0) {
    got += kMiB;
  }
  CHECK(got >= 4 * kGiB / 100 * 99);
  CHECK(arena.verify() == "");
}

TEST_CASE("growth on demand takes little at first and doubles") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {});
  arena.allocate(1);
  CHECK(memory.asked == std::vector<std::uint64_t>{4 * kMiB});
  while (memory.asked.size() < 4) {
    arena.allocate(512 * kKiB);
  }
  CHECK(memory.asked == std::vector<std::uint64_t>{4 * kMiB, 6 * kMiB, 10 * kMiB, 18 * kMiB});
  arena.allocate(700 * kMiB);  // XLA would take 1 GiB here
  CHECK(memory.asked.back() < 704 * kMiB);
}

TEST_CASE("the limit holds to the byte, and nearly all of it can be used") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget(kGiB);
  Arena arena(memory, budget, {});
  std::uint64_t got = 0;
  while (arena.allocate(kMiB).address != 0) {
    got += kMiB;
    REQUIRE(budget.used() <= kGiB);
  }
  CHECK(got >= kGiB / 100 * 99);
  CHECK(arena.allocate(kGiB / 20).failure == Failure::kOverLimit);
  CHECK(arena.allocate(2 * kGiB).failure == Failure::kTooLarge);
}

TEST_CASE("two arenas of one device share its limit") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget(kGiB);
  Arena first(memory, budget, {});
  Arena second(memory, budget, {});
  REQUIRE(first.allocate(700 * kMiB).address != 0);
  CHECK(second.allocate(400 * kMiB).failure == Failure::kOverLimit);
  CHECK(second.allocate(300 * kMiB).address != 0);
  CHECK(budget.used() <= kGiB);
}

TEST_CASE("a failure says whether memory is short or in pieces") {
  MadeUpMemory memory(256 * kMiB);
  Budget budget;
  Arena arena(memory, budget, {250 * kMiB});
  std::vector<Address> blocks;
  for (Allocation got; (got = arena.allocate(kMiB)).address != 0;) {
    blocks.push_back(got.address);
  }
  CHECK(arena.allocate(8 * kMiB).failure == Failure::kExhausted);
  for (std::size_t i = 0; i < blocks.size(); i += 2) {
    give(arena, blocks[i]);
  }
  CHECK(arena.allocate(8 * kMiB).failure == Failure::kFragmented);
  CHECK(arena.allocate(kMiB).address != 0);
  CHECK(arena.stats().num_failures == 0);
  arena.count_failure();
  CHECK(arena.stats().num_failures == 1);
}

TEST_CASE("an error of the source other than lack of memory is passed on, and nothing is lost") {
  MadeUpMemory memory(kGiB);
  Budget budget(kGiB);
  Arena arena(memory, budget, {512 * kMiB});
  memory.broken_with = 700;
  const Allocation failed = arena.allocate(kMiB);
  CHECK(failed.failure == Failure::kSourceError);
  CHECK(failed.source_error == 700);
  CHECK(memory.asked.size() == 1);  // a broken context is not asked again and again
  CHECK(budget.used() == 0);
  memory.broken_with = 0;
  CHECK(arena.allocate(kMiB).address != 0);
  CHECK(arena.stats().pool_bytes == 512 * kMiB);
}

TEST_CASE("regions without a block make room for a request that fails, once they are given back") {
  MadeUpMemory memory(kGiB);
  Budget budget;
  Arena arena(memory, budget, {});
  const Address a = arena.allocate(600 * kMiB).address;
  const Address b = arena.allocate(100 * kMiB).address;
  give(arena, a);
  CHECK(arena.allocate(800 * kMiB).failure == Failure::kExhausted);
  CHECK(memory.asked.back() == Regions::region_bytes_for(800 * kMiB));
  CHECK(arena.release_unused() > 600 * kMiB);
  CHECK(arena.allocate(800 * kMiB).address != 0);
  CHECK(memory.wrong_releases == 0);
  CHECK(arena.find_containing(b)->bytes == 100 * kMiB);
  CHECK(arena.verify() == "");
}

TEST_CASE("memory that holds no block is given back on request, and only that") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget(2 * kGiB);
  Arena arena(memory, budget, {});
  const Address a = arena.allocate(500 * kMiB).address;
  const Address b = arena.allocate(500 * kMiB).address;
  const auto retired = arena.retire(b);
  CHECK(arena.release_unused() == 0);  // a retired block is still somebody's
  arena.reclaim(*retired);
  CHECK(arena.release_unused() >= 500 * kMiB);
  CHECK(arena.find_containing(a)->bytes == 500 * kMiB);
  give(arena, a);
  arena.release_unused();
  CHECK(budget.used() == 0);
  CHECK(memory.free_bytes() == 4 * kGiB);
  CHECK(memory.wrong_releases == 0);
  CHECK(arena.allocate(kMiB).address != 0);
}

TEST_CASE("no lock is held while the source is asked") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {});
  const Address a = arena.allocate(kMiB).address;
  bool asked = false;
  memory.before_obtain = [&](std::uint64_t) {
    // As a hook of somebody else's inside the driver would: calls back from another thread, and
    // waits.
    std::thread([&] {
      asked = arena.find_containing(a).has_value() && arena.stats().num_allocs > 0;
    }).join();
  };
  CHECK(arena.allocate(kGiB).address != 0);
  CHECK(asked);
}

TEST_CASE("what is obtained while its context goes away went with it, and is not given back") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget(4 * kGiB);
  Arena arena(memory, budget, {});
  bool gone = false;
  memory.before_obtain = [&](std::uint64_t) {
    if (!std::exchange(gone, true)) {
      arena.abandon();
    }
  };
  CHECK(arena.allocate(kMiB).address == 0);
  CHECK(memory.regions() == 1);  // its address may be another's by now
  CHECK(budget.used() == 0);
  CHECK(arena.verify() == "");
}

TEST_CASE("an allocation by a hook inside the source waits for nobody and takes what it needs") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {.preallocate_bytes = kGiB});
  Address inner = 0;
  bool inside = false;
  memory.before_obtain = [&](std::uint64_t) {
    if (!std::exchange(inside, true)) {
      inner = arena.allocate(kMiB).address;
    }
  };
  CHECK(arena.allocate(kMiB).address != 0);
  CHECK(inner != 0);
  CHECK(arena.stats().pool_bytes < kGiB + 4 * kMiB);
  CHECK(arena.verify() == "");
}

TEST_CASE("a request that the limit cannot hold costs nothing that is there") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget(kGiB);
  Arena arena(memory, budget, {.preallocate_bytes = 512 * kMiB});
  give(arena, arena.allocate(kMiB).address);
  for (const std::uint64_t short_of_limit : {std::uint64_t{0}, 64 * kKiB, 128 * kKiB - 1}) {
    CHECK(arena.allocate(kGiB - short_of_limit).failure == Failure::kTooLarge);
  }
  CHECK(arena.stats().pool_bytes == 512 * kMiB);
}

TEST_CASE("a source that has nothing left is not asked again while a hole is to be found") {
  MadeUpMemory memory(kGiB);
  Budget budget;
  Arena arena(memory, budget, {.preallocate_bytes = kGiB});
  std::vector<Address> holes;
  // All holes of one class: the large ones are filed first, and so found last.
  for (int i = 0; i < 3000; ++i) {
    holes.push_back(arena.allocate(i < 1500 ? 66 * kKiB + 512 : 66 * kKiB).address);
    REQUIRE(arena.allocate(512).address != 0);
  }
  while (arena.allocate_without_growth(kMiB) != 0) {
  }
  while (arena.allocate_without_growth(70 * kKiB) != 0) {
  }
  for (const Address hole : holes) {
    give(arena, hole);
  }
  REQUIRE(arena.allocate(66 * kKiB + 512).address != 0);
  const std::size_t asked = memory.asked.size();
  for (int i = 0; i < 1400; ++i) {
    REQUIRE(arena.allocate(66 * kKiB + 512).address != 0);
  }
  CHECK(memory.asked.size() == asked);
  CHECK(arena.verify() == "");
}
