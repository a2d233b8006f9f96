// How an arena takes memory from its source and gives it back.
#include <thread>
#include <utility>

#include "arena/arena.h"
#include "arena/made_up_memory.h"
#include "arena/source_calls.h"
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
  Arena arena(memory, budget, {.preallocate_bytes = 3 * kGiB, .whole = true});
  CHECK(memory.asked.empty());  // nothing before the first allocation
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(arena.allocate(kMiB).address != 0);
  }
  CHECK(memory.asked == std::vector<std::uint64_t>{3 * kGiB});
}

TEST_CASE("an arena grows as the options say that it begins with, whatever it was made with") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {});
  arena.begin({.preallocate_bytes = 3 * kGiB, .whole = true});
  REQUIRE(arena.allocate(kMiB).address != 0);
  CHECK(memory.asked == std::vector<std::uint64_t>{3 * kGiB});
  arena.abandon();
  arena.begin({.preallocate_bytes = kGiB});
  REQUIRE(arena.allocate(kMiB).address != 0);
  CHECK(memory.asked.size() > 5);
  CHECK(arena.verify() == "");
}

TEST_CASE("preallocation backs off by tenths when the device has less") {
  MadeUpMemory memory(40 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {.preallocate_bytes = 54 * kGiB, .whole = true});
  REQUIRE(arena.allocate(kMiB).address != 0);
  CHECK(arena.stats().pool_bytes > 36 * kGiB);
  CHECK(memory.asked.size() == 4);  // 54, 48.6, 43.7 fail; 39.4 is there
}

TEST_CASE("a first request larger than the preallocation still succeeds in one region") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {.preallocate_bytes = 3 * kGiB, .whole = true});
  REQUIRE(arena.allocate(3800 * kMiB).address != 0);
  CHECK(memory.asked.size() == 1);
}

TEST_CASE("many small requests reach past the preallocation to nearly all of the device") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {.preallocate_bytes = 3 * kGiB, .whole = true});
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
  Arena arena(memory, budget, {.preallocate_bytes = 250 * kMiB, .whole = true});
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
  Arena arena(memory, budget, {.preallocate_bytes = 512 * kMiB, .whole = true});
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
  CHECK(memory.asked.back() == 800 * kMiB);
  CHECK(arena.release_unused() >= 600 * kMiB);
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
  Arena arena(memory, budget, {.preallocate_bytes = kGiB, .whole = true});
  Address inner = 0;
  bool inside = false;
  memory.before_obtain = [&](std::uint64_t) {
    if (!std::exchange(inside, true)) {
      inner = arena.allocate(kMiB).address;
    }
  };
  CHECK(arena.allocate(kMiB).address != 0);
  CHECK(inner != 0);
  CHECK(arena.stats().pool_bytes <= kGiB + 4 * kMiB);
  CHECK(arena.verify() == "");
}

TEST_CASE("a hook that allocates while regions go back waits for nobody") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget;
  Arena arena(memory, budget, {});
  give(arena, arena.allocate(256 * kMiB).address);
  bool is_inside = false;
  bool waited_for_itself = true;
  memory.before_release = [&] {
    is_inside = SourceCalls::this_thread_is_inside();
    // Only a thread that is not inside waits for the threads that give memory back.
    waited_for_itself = !is_inside || arena.wait_for_others();
  };
  CHECK(arena.release_unused(kGiB) > 0);
  CHECK(is_inside);
  CHECK_FALSE(waited_for_itself);
  CHECK_FALSE(SourceCalls::this_thread_is_inside());
  CHECK(arena.verify() == "");
}

TEST_CASE("a request that the limit cannot hold costs nothing that is there") {
  MadeUpMemory memory(4 * kGiB);
  Budget budget(kGiB);
  Arena arena(memory, budget, {.preallocate_bytes = 512 * kMiB, .whole = true});
  give(arena, arena.allocate(kMiB).address);
  CHECK(arena.allocate(kGiB + 1).failure == Failure::kTooLarge);
  CHECK(arena.stats().pool_bytes == 512 * kMiB);
}

TEST_CASE("all that the limit allows can be had in one piece") {
  for (const Options& options :
       {Options{}, Options{.preallocate_bytes = 512 * kMiB, .whole = true},
        Options::in_slices_of(kGiB), Options{.own_above_bytes = 16 * kMiB}}) {
    for (const std::uint64_t limit : {512 + 0 * kMiB, 3 * kMiB + 512, 100 * kMiB, kGiB}) {
      MadeUpMemory memory(4 * kGiB);
      Budget budget(limit);
      Arena arena(memory, budget, options);
      INFO(limit << " of " << options.slice_bytes << ", " << options.own_above_bytes);
      const Address all = arena.allocate(limit).address;
      REQUIRE(all != 0);
      CHECK(budget.used() == limit);
      CHECK(arena.allocate(1).failure == Failure::kOverLimit);
      CHECK(arena.verify() == "");
      give(arena, all);
      CHECK(arena.allocate(limit).address == all);
      give(arena, all);
      arena.release_unused();
      const Address small = arena.allocate(512).address;
      REQUIRE(small != 0);
      give(arena, small);
      arena.release_unused();
      CHECK(arena.allocate(limit).address != 0);
    }
  }
}

TEST_CASE("a source that has nothing left is not asked again while a hole is to be found") {
  MadeUpMemory memory(kGiB);
  Budget budget;
  Arena arena(memory, budget, {.preallocate_bytes = kGiB, .whole = true});
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

namespace {

// As on a device of 64 GiB: slices of a GiB, above 64 MiB regions of one block's.
struct Sliced {
  explicit Sliced(std::uint64_t device = 64 * kGiB) : memory(device) {}

  Address take(std::uint64_t bytes) { return arena.allocate(bytes).address; }

  MadeUpMemory memory;
  Budget budget;
  Arena arena{memory, budget, Options::in_slices_of(64 * kGiB)};
};

}  // namespace

TEST_CASE("a large request has a region of its own, of its own size, which starts where it does") {
  Sliced f;
  REQUIRE(f.take(kMiB) != 0);
  const Address large = f.take(65 * kMiB);
  CHECK(f.memory.asked.back() == 66 * kMiB);
  CHECK(f.arena.find_containing(large + 64 * kMiB)->address == large);
  give(f.arena, large);
  CHECK(f.arena.unused_bytes() == 66 * kMiB);
  CHECK(f.arena.release_unused() == 66 * kMiB);
  CHECK(f.arena.verify() == "");
}

TEST_CASE("a region of one block's is used again for what leaves an eighth over, and no more") {
  Sliced f;
  const Address large = f.take(90 * kMiB);
  give(f.arena, large);
  CHECK(f.take(79 * kMiB) != large);  // leaves more
  CHECK(f.take(90 * kMiB + 1) != large);
  CHECK(f.take(80 * kMiB) == large);
  CHECK(f.arena.stats().bytes_requested == 79 * kMiB + 90 * kMiB + 1 + 80 * kMiB);
  CHECK(f.arena.find_containing(large)->bytes == 80 * kMiB);
  CHECK(f.arena.verify() == "");
}

TEST_CASE("small requests leave a region of one block's alone, until nothing else is left") {
  Sliced f(kGiB);
  const Address large = f.take(600 * kMiB);
  give(f.arena, large);
  std::uint64_t got = 0;
  for (Address block = f.take(kMiB); block != 0; block = f.take(kMiB)) {
    REQUIRE((block < large || block >= large + 600 * kMiB));
    got += kMiB;
  }
  CHECK(got > 200 * kMiB);
  const Address first = f.arena.allocate_against_the_rule(kMiB);
  CHECK(first > large);  // behind a lead: it is a slice now
  CHECK(f.arena.verify() == "");
  for (Address block = f.take(kMiB); block != 0; block = f.take(kMiB)) {
    got += kMiB;
  }
  CHECK(got >= kGiB / 100 * 98);
  CHECK(f.arena.verify() == "");
}

TEST_CASE("a large request takes its place in a slice when nothing else is left") {
  Sliced f(300 * kMiB);
  std::vector<Address> blocks;
  for (Address block = f.take(kMiB); block != 0; block = f.take(kMiB)) {
    blocks.push_back(block);
  }
  const Address stays = blocks.back();
  blocks.pop_back();
  for (const Address block : blocks) {
    give(f.arena, block);
  }
  CHECK(f.take(100 * kMiB) == 0);
  const Address large = f.arena.allocate_against_the_rule(100 * kMiB);
  CHECK(large != 0);
  CHECK(f.arena.find_containing(stays)->address == stays);
  CHECK(f.arena.verify() == "");
}

TEST_CASE("what is given back is as much as is asked for: regions of one block's, then slices") {
  Sliced f;
  std::vector<Address> large;
  for (const std::uint64_t bytes : {100 * kMiB, 200 * kMiB, 300 * kMiB, 400 * kMiB}) {
    large.push_back(f.take(bytes));
  }
  const Address small = f.take(kMiB);
  const std::uint64_t slice = f.memory.asked.back();
  for (const Address block : large) {
    give(f.arena, block);
  }
  give(f.arena, small);
  CHECK(f.arena.release_unused(150 * kMiB) == 200 * kMiB);  // the smallest that is enough
  CHECK(f.arena.release_unused(650 * kMiB) == 700 * kMiB);  // the largest, then what is missing
  CHECK(f.arena.unused_bytes() == slice + 100 * kMiB);
  CHECK(f.arena.release_beyond(slice) == 100 * kMiB);
  CHECK(f.arena.release_unused(1) == slice);
  CHECK(f.arena.stats().pool_bytes == 0);
  CHECK(f.memory.free_bytes() == 64 * kGiB);
}

TEST_CASE("blocks of one size fill their slices") {
  for (const std::uint64_t bytes : {3 * kMiB, 7 * kMiB, 11 * kMiB, 33 * kMiB, 63 * kMiB}) {
    Sliced f(16 * kGiB);
    std::uint64_t got = 0;
    while (f.take(bytes) != 0) {
      got += bytes;
    }
    INFO(bytes);
    CHECK(got >= 16 * kGiB / 100 * 98);
  }
}

TEST_CASE("slices are preallocated where there is nothing else to hold memory with") {
  MadeUpMemory memory(16 * kGiB);
  Budget budget;
  Options options = Options::in_slices_of(16 * kGiB);
  options.preallocate_bytes = 12 * kGiB;
  Arena arena(memory, budget, options);
  REQUIRE(arena.allocate(kMiB).address != 0);
  CHECK(arena.stats().pool_bytes <= 12 * kGiB);
  CHECK(arena.stats().pool_bytes >= 12 * kGiB - 4 * kMiB);
  CHECK(arena.unused_bytes() >= 12 * kGiB - 10 * kMiB);  // one small block keeps a small slice
  arena.release_unused(10 * kGiB);
  REQUIRE(arena.allocate(10 * kGiB).address != 0);
}
