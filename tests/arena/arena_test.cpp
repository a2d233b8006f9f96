// What an arena promises about its blocks.
#include "arena/arena.h"

#include <map>
#include <span>
#include <vector>

#include "arena/made_up_memory.h"
#include "catch.h"

using namespace cubfc::arena;

namespace {

struct Fixture {
  explicit Fixture(std::uint64_t preallocate = 64 * kMiB, std::uint64_t device = 4 * kGiB)
      : memory(device), arena(memory, budget, Options{preallocate, true}) {}

  Address take(std::uint64_t bytes) { return arena.allocate(bytes).address; }
  bool give(Address address) { return arena.free(address); }

  MadeUpMemory memory;
  Budget budget;
  Arena arena;
};

}  // namespace

TEST_CASE("a block starts on a multiple of the largest power of two that divides its size") {
  Fixture f;
  f.memory.align_to(2 * kMiB);
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t alignment = 512; alignment <= 8 * kMiB; alignment *= 2) {
      for (const std::uint64_t times : {1, 3, 5}) {
        INFO(times << " times " << alignment);
        f.take(1);
        CHECK(f.take(times * alignment) % std::min(alignment, 2 * kMiB) == 0);
      }
    }
  }
  const auto retired = f.arena.retire(f.take(2 * kMiB + 256 * kKiB));
  const Address revived = f.arena.revive(*retired, 2 * kMiB);
  CHECK(revived % (2 * kMiB) == 0);  // or 0
  CHECK(f.arena.verify() == "");
}

TEST_CASE("small blocks are aligned to 512 bytes, large ones to 64 KiB, wherever regions start") {
  Fixture f;
  for (const std::uint64_t bytes :
       {std::uint64_t{1}, std::uint64_t{511}, std::uint64_t{512}, std::uint64_t{513}, 64 * kKiB + 1,
        2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1, 5 * kMiB + 1}) {
    f.take(1);  // so that the next hole starts at an odd granule
    const Address address = f.take(bytes);
    INFO(bytes);
    REQUIRE(address != 0);
    CHECK(address % 512 == 0);
    if (bytes >= 2 * kMiB) {
      CHECK(address % (64 * kKiB) == 0);
      CHECK(f.arena.find_containing(address)->block_bytes % (64 * kKiB) == 0);
    } else {
      CHECK(f.arena.find_containing(address)->block_bytes - bytes < 512);
    }
    CHECK(f.arena.find_containing(address)->bytes == bytes);
  }
  CHECK(f.arena.verify() == "");
}

TEST_CASE("a large block is found in a hole that only just holds it, whatever its alignment") {
  for (std::uint64_t odd = 0; odd <= 128; odd += 16) {
    Fixture f(64 * kMiB);
    // A hole of 3 MiB and one page less a granule, from an odd granule on, between live blocks.
    if (odd > 0) {
      f.take(odd * 512);
    }
    const Address hole = f.take(kMiB);
    const Address hole_end = f.take(kMiB);
    const Address hole_last = f.take(kMiB + 64 * kKiB - 512);
    while (f.take(kMiB + 512) != 0 && f.arena.stats().regions == 1) {
    }
    const auto regions = f.arena.stats().regions;
    f.give(hole);
    f.give(hole_end);
    f.give(hole_last);
    INFO(odd);
    CHECK(f.take(3 * kMiB - 64 * kKiB) != 0);  // any multiple of 64 KiB will do
    CHECK(f.arena.stats().regions == regions);
    CHECK(f.arena.verify() == "");
  }
}

TEST_CASE(
    "a fit among many holes of its class that are too small is found before a request fails") {
  Fixture f(53 * kGiB, 53 * kGiB + kMiB);
  // 128 MiB and 130 MiB share a class. What is freed last is looked at first.
  const Address fit = f.take(130 * kMiB);
  f.take(2 * kMiB);
  std::vector<Address> tight;
  for (int i = 0; i < 400; ++i) {
    tight.push_back(f.take(128 * kMiB));
    f.take(2 * kMiB);
  }
  while (f.arena.allocate_without_growth(2 * kMiB) != 0) {
  }
  f.give(fit);
  for (const Address address : tight) {
    f.give(address);
  }
  CHECK(f.arena.verify() == "");
  CHECK(f.take(130 * kMiB) == fit);
  CHECK(f.arena.stats().num_failures == 0);
  CHECK(f.arena.allocate(130 * kMiB).failure == Failure::kFragmented);
}

TEST_CASE("blocks of a size that comes and goes keep away from blocks that stay") {
  Fixture f;
  const Address temporary = f.take(kMiB);
  f.give(temporary);
  const Address stays = f.take(3 * kMiB);
  const Address again = f.take(kMiB);
  CHECK(again > stays + 32 * kMiB);
  f.give(again);
  f.give(stays);
  CHECK(f.arena.snapshot().size() == 1);
}

TEST_CASE("a block that fits exactly is taken before a larger one") {
  Fixture f;
  const Address large = f.take(10 * kMiB);
  f.take(2 * kMiB);
  const Address exact = f.take(6 * kMiB);
  f.take(2 * kMiB);
  f.give(large);
  f.give(exact);
  CHECK(f.take(6 * kMiB) == exact);
  CHECK(f.take(10 * kMiB) == large);
}

TEST_CASE("of holes of all sizes one is taken that is nearly the smallest that suffices") {
  Fixture f(2 * kGiB);
  std::map<std::uint64_t, Address> holes;
  std::vector<Address> walls{f.take(kMiB)};
  for (const std::uint64_t mib : {17, 16, 23, 19, 31, 29, 18, 27}) {
    holes[2 * mib * kMiB] = f.take(2 * mib * kMiB);
    walls.push_back(f.take(2 * kMiB));
  }
  std::map<Address, std::uint64_t> sizes;
  for (const auto& [bytes, address] : holes) {
    REQUIRE(f.give(address));
    sizes[address] = bytes;
  }
  CHECK(f.arena.verify() == "");
  for (std::uint64_t bytes = 32 * kMiB; bytes < 62 * kMiB; bytes += 192 * kKiB) {
    const std::uint64_t best = holes.lower_bound(bytes)->first;
    const Address got = f.take(bytes);
    const auto hole = std::prev(sizes.upper_bound(got));
    INFO(bytes);
    CHECK(got + bytes <= hole->first + hole->second);
    CHECK(hole->second <= best + best / 16);
    f.give(got);
  }
}

TEST_CASE("a freed block coalesces with the free neighbours on both sides") {
  Fixture f;
  const Address a = f.take(kMiB);
  const Address b = f.take(kMiB);
  const Address c = f.take(kMiB);
  const Address wall = f.take(1);
  f.give(a);
  f.give(c);
  f.give(b);
  CHECK(f.arena.verify() == "");
  CHECK(f.take(3 * kMiB) == a);
  f.give(a);
  f.give(wall);
  CHECK(f.arena.snapshot().size() == 1);
}

TEST_CASE("a double free, an interior pointer and a stranger's pointer are refused") {
  Fixture f;
  const Address a = f.take(kMiB);
  CHECK_FALSE(f.arena.retire(a + 512));
  CHECK_FALSE(f.arena.retire(a - 512));
  CHECK_FALSE(f.arena.retire(0));
  CHECK_FALSE(f.arena.retire(0x1234));
  CHECK(f.give(a));
  CHECK_FALSE(f.arena.retire(a));
  CHECK(f.arena.verify() == "");
}

TEST_CASE("a retired block is not handed out, and not found, before it is reclaimed") {
  Fixture f;
  const Address a = f.take(kMiB);
  const auto retired = f.arena.retire(a);
  REQUIRE(retired);
  CHECK_FALSE(f.arena.find_containing(a));
  CHECK_FALSE(f.arena.retire(a));
  CHECK(f.take(kMiB) != a);
  f.arena.reclaim(*retired);
  CHECK(f.take(kMiB) == a);
}

TEST_CASE("an address is found in its block, and only there") {
  Fixture f(256 * kMiB);
  const Address small = f.take(700);
  const Address large = f.take(100 * kMiB);
  const Address last = f.take(3 * kMiB);  // a smaller one would lie before the large one
  CHECK(f.arena.find_containing(small + 699)->address == small);
  CHECK(f.arena.find_live_from(small)->address == small);
  CHECK(f.arena.find_live_from(small + 699)->address == small);
  for (std::uint64_t offset = 0; offset < 100 * kMiB; offset += 7 * kMiB + 13) {
    CHECK(f.arena.find_containing(large + offset)->address == large);
  }
  CHECK(f.arena.find_containing(large + 100 * kMiB - 1)->address == large);
  CHECK(f.arena.find_containing(last)->address == last);
  CHECK_FALSE(f.arena.find_containing(small + 1024));
  CHECK_FALSE(f.arena.find_containing(1));
  CHECK_FALSE(f.arena.find_containing(~Address{0}));
  f.give(large);
  CHECK_FALSE(f.arena.find_containing(large + kMiB));
  CHECK(f.arena.find_live_from(large)->address == last);
  CHECK_FALSE(f.arena.find_live_from(last + 3 * kMiB));
  CHECK_FALSE(f.arena.find_live_from(1));
  CHECK(f.arena.find_containing(last)->address == last);
}

TEST_CASE("the start of a region is never handed out") {
  Fixture f;
  std::vector<Address> blocks;
  while (f.arena.stats().regions < 4) {
    blocks.push_back(f.take(kMiB));
  }
  f.memory.asked.clear();
  for (const Address block : blocks) {
    CHECK(f.arena.region_at(block - kRegionLeadBytes) != 0);
  }
}

TEST_CASE("every block has a number of its own, also after its address is reused") {
  Fixture f;
  Fixture other;
  const Address a = f.take(512);
  f.take(512);
  const std::uint64_t first = f.arena.find_containing(a)->id;
  f.give(a);
  REQUIRE(f.take(512) == a);
  CHECK(f.arena.find_containing(a)->id != first);
  CHECK(f.arena.find_containing(a)->id != 0);
  CHECK(other.arena.find_containing(other.take(512))->id != first);
}

TEST_CASE("requests of zero bytes and of absurd sizes fail as values") {
  Fixture f;
  CHECK(f.arena.allocate(0).failure == Failure::kTooLarge);
  for (const std::uint64_t bytes :
       {kLargestRequestBytes, kLargestRequestBytes + 1, ~std::uint64_t{0}, ~std::uint64_t{0} - 511,
        std::uint64_t{1} << 63}) {
    const Allocation got = f.arena.allocate(bytes);
    CHECK(got.address == 0);
    CHECK(got.failure != Failure::kNone);
  }
  CHECK(f.arena.verify() == "");
}

TEST_CASE("the statistics count what happened") {
  Fixture f(64 * kMiB);
  const Address a = f.take(1000);
  f.take(3 * kMiB);
  f.give(a);
  const Stats stats = f.arena.stats();
  CHECK(stats.num_allocs == 2);
  CHECK(stats.num_frees == 1);
  CHECK(stats.bytes_in_use == 3 * kMiB);
  CHECK(stats.bytes_requested == 3 * kMiB);
  CHECK(stats.peak_bytes_in_use == 3 * kMiB + 1024);
  CHECK(stats.largest_alloc_size == 3 * kMiB);
  CHECK(stats.pool_bytes == 64 * kMiB);
  CHECK(stats.bytes_limit == Budget::kUnlimited);
  CHECK(stats.live_blocks == 1);
  // The hole is nearly 60 MiB, and what it can serve is a multiple of 64 KiB.
  CHECK(stats.largest_free_block_bytes >= 59 * kMiB);
  const std::uint64_t largest = stats.largest_free_block_bytes;
  CHECK(f.take(largest) != 0);
  CHECK(f.arena.stats().regions == 1);
}

TEST_CASE("what is marked is counted apart, however it is freed, and so is its peak") {
  Fixture f(64 * kMiB);
  const auto take_marked = [&](std::uint64_t bytes) {
    return f.arena.allocate(bytes, Caller{5} | kMarked).address;
  };
  const auto marked = [&] { return f.arena.marked().bytes; };
  f.take(kMiB);
  const Address a = take_marked(1000);
  const Address b = take_marked(2 * kMiB);
  const Address c = take_marked(3 * kMiB);
  CHECK(marked() == 1000 + 5 * kMiB);
  CHECK(f.arena.marked().pool_bytes == 64 * kMiB);
  f.give(a);
  const auto retired = f.arena.retire(b);
  REQUIRE(retired);
  CHECK(marked() == 3 * kMiB);
  CHECK(f.arena.revive(*retired, 2 * kMiB) == b);  // by one that is not marked
  CHECK(marked() == 3 * kMiB);
  f.arena.gather(c, 0);
  CHECK(marked() == 0);
  CHECK(f.arena.marked().peak_bytes == 1000 + 5 * kMiB);
  f.arena.restart_marked_peak();
  CHECK(f.arena.marked().peak_bytes == 0);
  CHECK(f.arena.verify() == "");
  take_marked(100);
  f.arena.restart_marked_peak();
  CHECK(f.arena.marked().peak_bytes == 100);
  take_marked(100 * kMiB);  // a region of its own
  CHECK(f.arena.marked().peak_pool_bytes > 164 * kMiB);
  f.arena.abandon();
  CHECK(marked() == 0);
  CHECK(f.arena.marked().peak_bytes == 100 + 100 * kMiB);
  CHECK(f.arena.marked().pool_bytes == 0);
  CHECK(f.arena.marked().peak_pool_bytes > 164 * kMiB);
  f.arena.restart_marked_pool_peak();
  CHECK(f.arena.marked().peak_pool_bytes == 0);
}

TEST_CASE("an arena whose context is gone forgets everything and begins again") {
  Fixture f;
  const Address a = f.take(kMiB);
  const auto retired = f.arena.retire(f.take(kMiB));
  f.arena.abandon();
  f.arena.begin({});
  CHECK(f.memory.regions() == 1);  // nothing is given back: the driver has it already
  CHECK(f.budget.used() == 0);
  CHECK_FALSE(f.arena.retire(a));
  CHECK(f.arena.region_at(a) == 0);
  f.arena.reclaim(*retired);  // a free that was under way when the context went
  CHECK(f.arena.verify() == "");
  CHECK(f.take(kMiB) != 0);
  CHECK(f.arena.stats().pool_bytes < 8 * kMiB);
  CHECK(f.arena.verify() == "");
}

TEST_CASE("a region that was obtained later has the higher number, whichever arena has it") {
  Fixture first;
  Fixture second;
  const Address a = first.take(1);
  const Address b = second.take(1);
  CHECK(a == b);  // made-up addresses, as a device gives them again when a context has gone
  CHECK(first.arena.region_at(a) < second.arena.region_at(b));
  first.arena.abandon();
  CHECK(first.arena.region_at(a) == 0);
}

TEST_CASE("a request that can never be met costs nothing but its answer") {
  Fixture f;
  f.arena.begin({.preallocate_bytes = 64 * kMiB, .whole = true, .largest_bytes = 4 * kGiB});
  REQUIRE(f.give(f.take(kMiB)));
  f.memory.asked.clear();
  CHECK(f.arena.allocate(5 * kGiB).failure == Failure::kTooLarge);
  CHECK(f.memory.asked.empty());
  CHECK(f.memory.regions() == 1);  // what was preallocated is still there
}

TEST_CASE("an allocation without growth takes what is there, and no failure is counted") {
  Fixture f(8 * kMiB);
  CHECK(f.arena.allocate_without_growth(kMiB) == 0);
  REQUIRE(f.take(kMiB) != 0);
  CHECK(f.arena.allocate_without_growth(kMiB) != 0);
  CHECK(f.arena.allocate_without_growth(16 * kMiB) == 0);
  CHECK(f.memory.asked.size() == 1);
  CHECK(f.arena.stats().num_failures == 0);
  CHECK(f.arena.verify() == "");
}

TEST_CASE("what was gathered before an arena is abandoned is nobody's after it") {
  Fixture f;
  const Address first = f.take(kMiB);
  f.take(kMiB);
  REQUIRE(f.arena.gather(first, 0) != Arena::Gathered::kNot);
  const GatheredBlocks taken = f.arena.take_gathered();
  REQUIRE(f.arena.gather(f.take(kMiB), 0) != Arena::Gathered::kNot);
  f.arena.abandon();
  CHECK(!f.arena.has_gathered());
  const Address again = f.take(kMiB);
  f.arena.reclaim(taken);
  CHECK(f.arena.find_containing(again));
  CHECK(f.arena.headroom().retired == 0);
  CHECK(f.arena.verify() == "");
}

TEST_CASE("an arena says when enough has gathered") {
  Fixture f;
  std::vector<Address> blocks;
  for (int i = 0; i < 40; ++i) {
    blocks.push_back(f.take(512));
  }
  for (int i = 0; i < 40; ++i) {
    INFO(i);
    const auto expected = i < 31 ? Arena::Gathered::kYes : Arena::Gathered::kFull;
    CHECK(f.arena.gather(blocks[static_cast<std::size_t>(i)], 0) == expected);
  }
  CHECK(f.arena.take_gathered().count == 40);
  f.take(900 * kMiB);
  CHECK(f.arena.gather(f.take(8 * kMiB), 0) == Arena::Gathered::kFull);
  CHECK(f.arena.gather(f.take(512), kGiB) == Arena::Gathered::kYes);
}

namespace {

// Counts what it is told of.
class CountingObserver : public Observer {
 public:
  void exceeded() noexcept override {}
  void changed() noexcept override { ++changes; }
  void resized() noexcept override { ++resizes; }
  bool records() const noexcept override { return false; }
  void allocated(Address, std::uint64_t, std::uint64_t, Caller) noexcept override {}
  void freed(const FreedBlock&) noexcept override {}
  void retired(const FreedBlock&) noexcept override {}
  void reclaimed(std::span<const FreedBlock>) noexcept override {}
  void grew(Address, std::uint64_t) noexcept override {}
  void shrank(Address, std::uint64_t) noexcept override {}
  void abandoned() noexcept override {}

  int changes = 0;
  int resizes = 0;
};

}  // namespace

TEST_CASE("who watches an arena is told of the first change, and the peaks stay what they were") {
  Fixture f;
  CountingObserver observer;
  Figures figures{};
  Figure peaks{1};
  f.arena.watch();  // nobody is to be told
  f.arena.observe(figures, observer, peaks);
  const CallerFigures& caller = figures.callers[3];
  const auto take = [&](std::uint64_t bytes) { return f.arena.allocate(bytes, 3).address; };
  const Address first = take(1000);
  CHECK(observer.changes == 0);
  f.arena.watch();
  const Address second = take(1000);
  CHECK(observer.changes == 1);
  f.give(take(1000));
  CHECK(observer.changes == 1);
  put(peaks, 2);
  const std::uint64_t at_peak = read(caller.has);
  f.arena.watch();
  CHECK(caller.at_peak(2) == at_peak);
  f.give(second);
  CHECK(observer.changes == 2);
  CHECK(caller.at_peak(2) == at_peak);
  f.arena.watch();
  CHECK(caller.at_peak(2) == at_peak);
  const auto retired = f.arena.retire(first);
  CHECK(observer.changes == 2);  // nobody may have it yet
  f.arena.reclaim(*retired);
  CHECK(observer.changes == 3);
  CHECK(caller.at_peak(2) == at_peak);
  CHECK(read(caller.has) == 0);
  f.arena.watch();
  const int resizes = observer.resizes;
  CHECK(f.arena.release_unused() > 0);
  CHECK(observer.resizes > resizes);
}
