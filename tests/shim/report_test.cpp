// What reports are made of.
#include "catch.h"
#include "shim/tell/log.h"
#include "shim/tell/out_of_memory.h"

using cubfc::arena::BlockSnapshot;
using cubfc::arena::BlockState;

TEST_CASE("the map shows what is in use, what is free, and where both meet") {
  const auto block = [](std::uint64_t bytes, BlockState state) {
    return BlockSnapshot{0, bytes, state};
  };
  using enum BlockState;
  CHECK(cubfc::draw_map({block(1000, kLive)}, 4) == "****");
  CHECK(cubfc::draw_map({block(1000, kFree)}, 4) == "____");
  CHECK(cubfc::draw_map({block(500, kLive), block(500, kFree)}, 4) == "**__");
  CHECK(cubfc::draw_map({block(100, kLive), block(900, kFree)}, 4) == "x___");
  CHECK(cubfc::draw_map({block(600, kRetired), block(400, kFree)}, 2) == "*x");
  CHECK(cubfc::draw_map({block(1, kLive), block(1, kFree)}, 10) == "*****_____");
  CHECK(cubfc::draw_map({}, 10).empty());
  CHECK(cubfc::draw_map({block(1ULL << 62, kLive)}, 100) == std::string(100, '*'));
}

TEST_CASE("sizes are written for people") {
  CHECK(cubfc::log::bytes(0) == "0 B");
  CHECK(cubfc::log::bytes(1023) == "1023 B");
  CHECK(cubfc::log::bytes(1536) == "1.50 KiB");
  CHECK(cubfc::log::bytes(6732000000) == "6.27 GiB");
  CHECK(cubfc::log::bytes(149350000000) == "139.1 GiB");
  CHECK(cubfc::log::bytes(~0ULL) == "16.00 EiB");
}
