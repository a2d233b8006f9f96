// Several recordings as one.
#include "cli/recordings/several.h"

#include <algorithm>
#include <string>
#include <vector>

#include "catch.h"
#include "tests/cli/reading.h"

using namespace cubfc::recordings;
using cubfc::trace::Kind;

namespace {

Recording made(const std::string& name, std::uint64_t start_unix_ns) {
  Recording one;
  one.path = "/job/" + name;
  one.format = "cubfc trace";
  one.start_unix_ns = start_unix_ns;
  one.pid = 7;
  one.closed = true;
  one.devices = {{0, "GPU", 1 << 30, ~0ULL, {1}, ""}};
  one.places = {{0, cubfc::trace::Memory::kArena, 3}, {1, cubfc::trace::Memory::kPool, 0}};
  one.callers = {"", "libtorch.so", name};
  one.threads = {{0, ""}, {99, "python"}};
  one.texts = {"report of " + name};
  one.frames = {{"step", "/me/train.py", 7, Frame::Kind::kPython, "", 0},
                {"of " + name, "/me/train.py", 8, Frame::Kind::kPython, "", 0}};
  one.stacks = {{0, 1}};
  for (const std::uint64_t time : {10, 30}) {
    Event event;
    event.kind = Kind::kAllocate;
    event.time_ns = time;
    event.address = 4096 * time;
    event.bytes = time;
    event.place = time == 10 ? 0U : 1U;
    event.thread = 1;
    event.caller = time == 10 ? 1U : 2U;
    event.stack = time == 10 ? 0 : kNone;
    one.events.push_back(event);
  }
  Event last;
  last.kind = Kind::kOutOfMemory;
  last.time_ns = 40;
  last.place = kNone;
  last.text = 0;
  one.events.push_back(last);
  return one;
}

}  // namespace

TEST_CASE("the events of several recordings stand in the order of their times, each with its own",
          "[recordings]") {
  std::vector<Recording> all{made("rank0.cubfc", 1000), made("rank1.cubfc", 1015)};
  const Recording whole = merged(std::move(all));
  CHECK(whole.path == "/job/rank0.cubfc and 1 more");
  CHECK(whole.start_unix_ns == 1000);
  CHECK(whole.closed);
  std::vector<std::string> told;
  for (const Event& event : whole.events) {
    if (event.kind == Kind::kAllocate) {
      const Place& place = whole.places[event.place];
      told.push_back(std::to_string(event.time_ns) + ' ' + whole.devices[place.device].label +
                     ", " + whole.callers[event.caller] + ", " + whole.threads[event.thread].name);
    } else {
      told.push_back(std::to_string(event.time_ns) + ' ' + whole.texts[event.text]);
    }
  }
  CHECK(told ==
        std::vector<std::string>{"10 GPU 0 of rank0.cubfc, libtorch.so, rank0.cubfc: python",
                                 "25 GPU 0 of rank1.cubfc, libtorch.so, rank1.cubfc: python",
                                 "30 GPU 1 of rank0.cubfc, rank0.cubfc, rank0.cubfc: python",
                                 "40 report of rank0.cubfc",
                                 "45 GPU 1 of rank1.cubfc, rank1.cubfc, rank1.cubfc: python",
                                 "55 report of rank1.cubfc"});
  CHECK(whole.places[0].context_id != whole.places[2].context_id);
  CHECK(whole.devices[whole.places[2].device].name == "GPU");
  REQUIRE(whole.stacks.size() == 2);
  CHECK(whole.stacks[0][0] == whole.stacks[1][0]);  // the same function
  CHECK(stack_of(whole, 1)[1] == "of rank1.cubfc (/me/train.py:8)");
}

TEST_CASE("what was there before several recordings comes first", "[recordings]") {
  std::vector<Recording> all{made("a", 1000), made("b", 0), made("c", 1)};
  all[1].before = 2;
  all[2].before = 1;
  const Recording whole = merged(std::move(all));
  CHECK(whole.before == 3);
  CHECK(whole.numbers() == 7);
  std::vector<std::uint64_t> times;
  for (const Event& event : whole.events) {
    times.push_back(event.time_ns);
  }
  CHECK(times == std::vector<std::uint64_t>{10, 30, 10, 10, 30, 30, 40, 40, 40});
}

TEST_CASE("one recording of several that is cut, or tells no time, makes the whole so",
          "[recordings]") {
  std::vector<Recording> all{made("a", 1000), made("b", 0)};
  all[1].is_cut = true;
  all[1].closed = false;
  const Recording whole = merged(std::move(all));
  CHECK(whole.is_cut);
  CHECK_FALSE(whole.closed);
  CHECK(whole.start_unix_ns == 0);
  CHECK(std::ranges::is_sorted(whole.events, {}, &Event::time_ns));
  std::vector<Recording> single{made("a", 1000)};
  const Recording alone = merged(std::move(single));
  CHECK(alone.path == "/job/a");
  CHECK(alone.pid == 7);
  CHECK(alone.devices[0].label.empty());
}

TEST_CASE("more callers and threads than can be told apart are the last one's", "[recordings]") {
  std::vector<Recording> all{made("a", 1), made("b", 1)};
  for (Recording& one : all) {
    for (int n = 0; n < 200; ++n) {
      one.callers.push_back(one.path + std::to_string(n));
    }
    one.events[0].caller = 200;
  }
  const Recording whole = merged(std::move(all));
  CHECK(whole.callers.size() == 256);
  CHECK(whole.callers.back() == "(others)");
  CHECK(whole.callers[whole.events[1].caller] == "(others)");
}
