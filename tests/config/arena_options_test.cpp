// What a policy makes of an arena.
#include "config/arena_options.h"

#include <optional>
#include <string>

#include "arena/arena.h"
#include "arena/made_up_memory.h"
#include "catch.h"

namespace config = cubfc::config;

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

}  // namespace

TEST_CASE("an arena's slices go by the device, or by a limit that is smaller", "[config]") {
  const config::Policy policy;
  const auto of_device =
      config::arena_options(policy, {.total_bytes = 64 * kGiB, .limit_bytes = kNoLimit}, 0);
  CHECK(of_device.slice_bytes == kGiB);
  CHECK(of_device.largest_bytes == 64 * kGiB);
  CHECK_FALSE(of_device.whole);
  const auto of_limit =
      config::arena_options(policy, {.total_bytes = 64 * kGiB, .limit_bytes = 32 * kGiB}, 0);
  CHECK(of_limit.slice_bytes == kGiB / 2);
}

TEST_CASE("in a group slices are smaller, since a block keeps a whole one from others",
          "[config]") {
  constexpr std::uint64_t kMiB = 1 << 20;
  config::Policy policy;
  policy.group.value = "job";
  const auto options_for = [&](std::uint64_t limit) {
    return config::arena_options(policy, {.total_bytes = 80 * kGiB, .limit_bytes = limit}, 0);
  };
  CHECK(options_for(20 * kGiB).slice_bytes == 128 * kMiB);
  CHECK(options_for(20 * kGiB).own_above_bytes == 5 * kMiB);
  CHECK(options_for(4 * kGiB).slice_bytes == 128 * kMiB);
  CHECK(options_for(4 * kGiB).own_above_bytes == 2 * kMiB);
  CHECK(options_for(2 * kGiB).slice_bytes == 64 * kMiB);
  CHECK(options_for(2 * kGiB).own_above_bytes == 2 * kMiB - 1);
  CHECK(options_for(kGiB / 2).slice_bytes == 32 * kMiB);
  CHECK(options_for(80 * kGiB).slice_bytes == 320 * kMiB);
}

TEST_CASE("a group's budget holds as many blocks as a limit of that size, but for 2%", "[config]") {
  constexpr std::uint64_t kKiB = 1 << 10;
  const auto blocks_under = [](std::uint64_t limit, bool in_group, std::uint64_t bytes) {
    config::Policy policy;
    policy.group.value = in_group ? std::optional<std::string>("job") : std::nullopt;
    const auto options =
        config::arena_options(policy, {.total_bytes = 80 * kGiB, .limit_bytes = limit}, 0);
    cubfc::arena::MadeUpMemory memory(80 * kGiB);
    cubfc::arena::Budget budget(limit);
    cubfc::arena::Arena arena(memory, budget, options);
    std::uint64_t blocks = 0;
    while (arena.allocate(bytes).address != 0) {
      ++blocks;
    }
    return blocks;
  };
  for (const std::uint64_t limit : {kGiB, 2 * kGiB, 4 * kGiB, 8 * kGiB, 20 * kGiB}) {
    for (const std::uint64_t bytes : {1024 * kKiB, 1536 * kKiB, 2048 * kKiB, 3072 * kKiB}) {
      if (bytes < 2048 * kKiB && limit < 4 * kGiB) {
        continue;  // small slices, of which the first MiB is no block's
      }
      CAPTURE(limit, bytes);
      CHECK(blocks_under(limit, true, bytes) * 100 >= blocks_under(limit, false, bytes) * 98);
    }
  }
}

TEST_CASE("what is preallocated as a whole serves large requests, too", "[config]") {
  config::Policy policy;
  policy.preallocate.value = config::Preallocate::kWhole;
  const auto options =
      config::arena_options(policy, {.total_bytes = 64 * kGiB, .limit_bytes = kNoLimit}, 48 * kGiB);
  CHECK(options.whole);
  CHECK(options.preallocate_bytes == 48 * kGiB);
  CHECK(options.own_above_bytes == cubfc::arena::kLargestRequestBytes);
}

TEST_CASE("of the host's memory nothing is taken ahead unless it was asked for", "[config]") {
  config::Policy policy;
  const config::ArenaDevice device{
      .total_bytes = 64 * kGiB, .limit_bytes = kNoLimit, .is_integrated = true};
  CHECK(config::arena_options(policy, device, kGiB).preallocate_bytes == 0);
  policy.preallocate.value = config::Preallocate::kYes;
  CHECK(config::arena_options(policy, device, kGiB).preallocate_bytes == kGiB);
}

TEST_CASE("pages are a 4,096th, at least the driver's and 32 MiB at most", "[config]") {
  constexpr std::uint64_t kMiB = 1 << 20;
  CHECK(config::page_bytes(kGiB, 2 * kMiB) == 2 * kMiB);
  CHECK(config::page_bytes(32 * kGiB, 2 * kMiB) == 8 * kMiB);
  CHECK(config::page_bytes(kNoLimit, 2 * kMiB) == 32 * kMiB);
  CHECK(config::page_bytes(kGiB, 64 * kMiB) == 64 * kMiB);
}
