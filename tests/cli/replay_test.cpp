// `cubfc replay` as its users see it: what it says, how it exits, and the traces that it writes.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.h"
#include "cli/recordings/open_recording.h"
#include "cli/recordings/trace_writer.h"
#include "reading.h"

namespace cubfc::recordings {
namespace {

using trace::Kind;
using trace::Memory;

constexpr std::uint64_t kMiB = 1 << 20;

struct Ran {
  int status = -1;
  std::string out;
  std::string err;
};

// `words` go through a shell.
Ran cubfc(const TemporaryFolder& folder, const std::string& words) {
  const std::string command =
      CUBFC_COMMAND " " + words + " >" + folder.file("out") + " 2>" + folder.file("err");
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents_of(folder.file("out")),
          contents_of(folder.file("err"))};
}

nlohmann::json result_of(const TemporaryFolder& folder, const std::string& words) {
  return nlohmann::json::parse(cubfc(folder, "replay --json " + words).out)["results"][0];
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A recording that is made event by event.
class Script {
 public:
  Script() {
    recording_.callers = {"", "libapp.so"};
    recording_.threads = {{}, {4711, "main"}};
    recording_.pid = 42;
    recording_.start_unix_ns = 1'700'000'000'000'000'000;
  }

  std::uint32_t place(std::uint32_t device, Memory memory, std::uint64_t context_id) {
    recording_.places.push_back({device, memory, context_id});
    return static_cast<std::uint32_t>(recording_.places.size() - 1);
  }
  Script& device(std::uint32_t number, std::uint64_t total_bytes) {
    recording_.devices.push_back({number, "Testing GPU", total_bytes, ~0ULL, {}, ""});
    return *this;
  }
  Script& event(Kind kind, std::uint32_t place, std::uint64_t address, std::uint64_t bytes) {
    Event made;
    made.kind = kind;
    made.time_ns = 1000 * (recording_.events.size() + 1);
    made.place = place;
    made.address = address;
    made.bytes = bytes;
    made.thread = 1;
    made.caller = 1;
    recording_.events.push_back(made);
    return *this;
  }
  Script& allocate(std::uint32_t place, std::uint64_t address, std::uint64_t bytes) {
    return event(Kind::kAllocate, place, address, bytes);
  }
  Script& free(std::uint32_t place, std::uint64_t address) {
    return event(Kind::kFree, place, address, 0);
  }

  std::string write(const TemporaryFolder& folder) const {
    write_trace(folder.file("run.cubfc"), recording_);
    return folder.file("run.cubfc");
  }

 private:
  Recording recording_;
};

// Ten blocks of 10 MiB, of which every other one goes, and then one of 30 MiB.
Script holes() {
  Script script;
  script.device(0, 1024 * kMiB);
  const std::uint32_t arena = script.place(0, Memory::kArena, 7);
  for (std::uint64_t i = 1; i <= 10; ++i) {
    script.allocate(arena, i, 10 * kMiB);
  }
  for (std::uint64_t i = 1; i <= 10; i += 2) {
    script.free(arena, i);
  }
  script.allocate(arena, 20, 30 * kMiB);
  return script;
}

// Sizes and lifetimes of every kind, in two contexts and beside them, and a context that ends.
Script mixture() {
  Script script;
  script.device(0, 2048 * kMiB);
  const std::uint32_t first = script.place(0, Memory::kArena, 7);
  const std::uint32_t second = script.place(0, Memory::kDirect, 8);
  const std::uint32_t managed = script.place(0, Memory::kManaged, 0);
  const std::uint32_t other = script.place(1, Memory::kArena, 9);
  std::uint64_t state = 1;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33U) % below;
  };
  std::array<bool, 64> live{};
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t block = random(live.size());
    const std::uint32_t place = std::array{first, second, managed, other}.at(block % 4);
    if (live.at(block)) {
      script.event(random(2) == 0 ? Kind::kFree : Kind::kRetire, place, block + 1, 0);
    } else {
      script.allocate(place, block + 1, 1 + random(8 * kMiB) * random(2) + random(3000));
    }
    live.at(block) = !live.at(block);
    if (i == 2000) {
      script.event(Kind::kEndPlace, second, 0, 0);
      for (std::size_t each = 1; each < live.size(); each += 4) {
        live.at(each) = false;
      }
    }
  }
  return script.event(Kind::kOutOfMemory, first, 100 * kMiB, 0);
}

}  // namespace

TEST_CASE("a recording that fits exits with 0, one that does not with 3 and the reason",
          "[replay]") {
  const TemporaryFolder folder;
  const std::string file = holes().write(folder);
  const Ran fits = cubfc(folder, "replay " + file + " --limit 200MiB --allocator bfc");
  CHECK(fits.status == 0);
  CHECK(has(fits.out, "fits       yes"));
  CHECK(fits.err.empty());

  const Ran fails = cubfc(folder, "replay " + file + " --limit 110MiB --preallocate whole");
  CHECK(fails.status == 3);
  CHECK(fails.err.empty());
  CHECK(has(fails.out, "out of memory on GPU 0 at operation 16, event 15, 0.000016 s"));
  CHECK(has(fails.out, "asked    30.00 MiB (31,457,280 bytes)"));
  CHECK(has(fails.out, "50.00 MiB in use"));
  CHECK(has(fails.out, "cause    fragmentation: enough is free, not in one piece"));
}

TEST_CASE("vmm needs no more than what is in use, where bfc cannot", "[replay]") {
  const TemporaryFolder folder;
  const std::string file = holes().write(folder);
  CHECK(cubfc(folder, "replay " + file + " --limit 102MiB --allocator vmm").status == 0);
  CHECK(cubfc(folder, "replay " + file + " --limit 99MiB --allocator vmm").status == 3);
}

TEST_CASE("the cause of a failure is told apart", "[replay]") {
  const TemporaryFolder folder;
  const std::string file = holes().write(folder);
  const auto cause = [&](const std::string& words) {
    return result_of(folder, file + " --allocator bfc " + words)["out_of_memory"]["cause"];
  };
  CHECK(cause("--limit 5MiB") == "larger than the limit");
  CHECK(cause("--total 5MiB") == "larger than the device");
  CHECK(cause("--limit 45MiB") == "over the limit");
  CHECK(cause("--total 45MiB") == "the device is full");
}

TEST_CASE("under vmm a limit that is too low is called that", "[replay]") {
  const TemporaryFolder folder;
  Script script;
  script.device(0, 1024 * kMiB);
  const std::uint32_t arena = script.place(0, Memory::kArena, 1);
  for (std::uint64_t i = 1; i <= 100; ++i) {
    script.allocate(arena, i, kMiB);
  }
  for (std::uint64_t i = 1; i <= 100; i += 2) {
    script.free(arena, i);
  }
  script.allocate(arena, 200, 30 * kMiB);
  const std::string file = script.write(folder);
  const auto cause = [&](const std::string& words) {
    return result_of(folder, file + " --limit 104MiB " + words)["out_of_memory"]["cause"];
  };
  CHECK(cause("--allocator vmm") == "over the limit");
  CHECK(cause("--allocator bfc") == "fragmentation: enough is free, not in one piece");
}

TEST_CASE("several policies are shown side by side when none is named", "[replay]") {
  const TemporaryFolder folder;
  const std::string file = holes().write(folder);
  const Ran table = cubfc(folder, "replay " + file + " --limit 110MiB");
  CHECK(has(table.out, "GPU 0 of 1.00 GiB (as recorded), limit 110.00 MiB"));
  CHECK(has(table.out, "\nbfc, preallocate whole      no"));
  CHECK(has(table.out, "\nvmm, free deferred  "));
  CHECK(has(table.out, "\nplatform                   yes"));
  const auto results = nlohmann::json::parse(cubfc(folder, "replay --json " + file).out)["results"];
  CHECK(results.size() == 6);
  for (const auto& result : results) {
    CHECK(result["fits"] == true);
    CHECK(result["least_limit_to_peak"].get<double>() >= 1.0);
    CHECK(result["least_limit_to_peak"].get<double>() < 1.5);
  }
}

TEST_CASE("the least limit is enough, and a little less is not", "[replay]") {
  const TemporaryFolder folder;
  const std::string file = holes().write(folder);
  for (const std::string policy : {"--allocator bfc", "--allocator vmm", "--preallocate whole"}) {
    INFO(policy);
    const auto least =
        result_of(folder, file + " --fit " + policy)["least_limit_bytes"].get<std::uint64_t>();
    const auto status = [&](std::uint64_t limit) {
      return cubfc(folder, "replay " + file + " " + policy + " --limit " + std::to_string(limit))
          .status;
    };
    CHECK(status(least) == 0);
    CHECK(status(least - 2 * kMiB) == 3);
  }
}

TEST_CASE("a limit can be a share, of what the recording or --total says", "[replay]") {
  const TemporaryFolder folder;
  const std::string file = holes().write(folder);
  const auto limit = [&](const std::string& words) {
    return result_of(folder, file + " --allocator bfc " + words)["devices"][0]["limit_bytes"];
  };
  CHECK(limit("--limit 0.5") == 512 * kMiB);
  CHECK(limit("--limit 25% --total 800MiB") == 200 * kMiB);
  CHECK(limit("--mem-fraction 0.5") == 512 * kMiB);
  Script unknown;
  unknown.allocate(unknown.place(0, Memory::kArena, 1), 1, 100);
  const Ran refused = cubfc(folder, "replay " + unknown.write(folder) + " --limit 0.5");
  CHECK(refused.status == 2);
  CHECK(refused.err == "cubfc: replay: --limit \"0.5\" is a share; --total says of what\n");
}

TEST_CASE("what is beside the arenas counts, too", "[replay]") {
  const TemporaryFolder folder;
  for (const Memory memory :
       {Memory::kManaged, Memory::kMapped, Memory::kArray, Memory::kPool, Memory::kDirect}) {
    INFO(static_cast<int>(memory));
    Script script;
    script.device(0, 1024 * kMiB);
    const std::uint32_t arena = script.place(0, Memory::kArena, 7);
    const std::uint32_t beside = script.place(0, memory, 0);
    script.allocate(beside, 1, 60 * kMiB).allocate(arena, 2, 60 * kMiB);
    const std::string file = script.write(folder);
    CHECK(cubfc(folder, "replay --allocator bfc --limit 110MiB " + file).status == 3);
    CHECK(cubfc(folder, "replay --allocator bfc --limit 130MiB " + file).status == 0);
    // The arena gives back what it does not use.
    script.free(arena, 2).allocate(beside, 3, 60 * kMiB);
    CHECK(cubfc(folder, "replay --allocator bfc --limit 130MiB " + script.write(folder)).status ==
          0);
  }
}

TEST_CASE("each GPU has its own limit, and the end of a context frees what is in it", "[replay]") {
  const TemporaryFolder folder;
  Script script;
  const std::uint32_t first = script.place(0, Memory::kArena, 1);
  const std::uint32_t second = script.place(1, Memory::kArena, 2);
  const std::uint32_t third = script.place(0, Memory::kArena, 3);
  script.allocate(first, 1, 60 * kMiB).allocate(second, 2, 60 * kMiB);
  CHECK(cubfc(folder, "replay --limit 70MiB --allocator bfc " + script.write(folder)).status == 0);
  Script without_end = script;
  without_end.allocate(third, 3, 60 * kMiB);
  CHECK(cubfc(folder, "replay --limit 70MiB --allocator bfc " + without_end.write(folder)).status ==
        3);
  script.event(Kind::kEndPlace, first, 0, 0).allocate(third, 3, 60 * kMiB);
  CHECK(cubfc(folder, "replay --limit 70MiB --allocator bfc " + script.write(folder)).status == 0);
}

TEST_CASE("a request that failed is tried again, and what it gets is free at once", "[replay]") {
  const TemporaryFolder folder;
  Script script;
  const std::uint32_t arena = script.place(0, Memory::kArena, 1);
  script.event(Kind::kOutOfMemory, arena, 60 * kMiB, 0).allocate(arena, 1, 60 * kMiB);
  const std::string file = script.write(folder);
  CHECK(cubfc(folder, "replay --limit 70MiB --allocator bfc " + file).status == 0);
  const auto failed = result_of(folder, "--limit 50MiB --allocator bfc " + file);
  CHECK(failed["failed_requests"] == 2);
  CHECK(failed["out_of_memory"]["failed_when_recorded"] == false);
  CHECK(failed["out_of_memory"]["event"] == 1);
}

TEST_CASE("what failed when it was recorded is no part of the peak", "[replay]") {
  const TemporaryFolder folder;
  Script script;
  const std::uint32_t arena = script.place(0, Memory::kArena, 1);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    script.allocate(arena, i, kMiB);
  }
  for (std::uint64_t i = 1; i <= 4; ++i) {
    script.event(Kind::kFree, arena, i, 0);
  }
  script.allocate(arena, 9, 60 * kMiB).event(Kind::kOutOfMemory, arena, 600 * kMiB, 0);
  const auto workload = nlohmann::json::parse(
      cubfc(folder, "replay --json --limit 700MiB " + script.write(folder)).out)["recording"];
  CHECK(workload["peak_bytes"] == 61 * kMiB);
  CHECK(workload["peak_blocks"] == 2);  // then, not the five that there were before
}

TEST_CASE("as RMM's log a recording of several GPUs is of several", "[replay]") {
  const TemporaryFolder folder;
  Script script;
  const std::uint32_t first = script.place(0, Memory::kArena, 1);
  const std::uint32_t second = script.place(3, Memory::kArena, 2);
  script.allocate(first, 1, 30 * kMiB).allocate(second, 2, 40 * kMiB);
  script.event(Kind::kOutOfMemory, second, 100 * kMiB, 0);
  const std::string log = folder.file("log.csv");
  CHECK(cubfc(folder, "report --format rmm -o " + log + " " + script.write(folder)).status == 0);
  const Recording read = recordings::open_recording(log);
  REQUIRE(read.events.size() == 3);
  CHECK(read.places[read.events[0].place].device == 0);
  CHECK(read.places[read.events[1].place].device == 3);
  CHECK(read.places[read.events[2].place].device == 3);
}

TEST_CASE("of what is mapped a part can be unmapped", "[replay]") {
  const TemporaryFolder folder;
  Script script;
  const std::uint32_t arena = script.place(0, Memory::kArena, 1);
  const std::uint64_t base = 1ULL << 30;
  script.event(Kind::kGrow, arena, base, 60 * kMiB);
  script.event(Kind::kGrow, arena, base + 60 * kMiB, 40 * kMiB);
  script.event(Kind::kShrink, arena, base + 20 * kMiB, 60 * kMiB);  // of both: 20 and 20 are left
  script.event(Kind::kGrow, arena, base + 200 * kMiB, 60 * kMiB);
  script.event(Kind::kShrink, arena, base, 20 * kMiB);
  script.event(Kind::kShrink, arena, base + 80 * kMiB, 10 * kMiB);  // at its front
  script.event(Kind::kGrow, arena, base + 300 * kMiB, 30 * kMiB);
  script.event(Kind::kShrink, arena, base + 500 * kMiB, 10 * kMiB);  // of nothing
  const std::string file = script.write(folder);
  const auto workload =
      nlohmann::json::parse(cubfc(folder, "replay --json --segments " + file).out)["recording"];
  CHECK(workload["peak_bytes"] == 100 * kMiB);
  CHECK(workload["unknown_frees"] == 1);
  CHECK(cubfc(folder, "replay --segments --limit 100MiB --allocator platform " + file).status == 0);
  CHECK(cubfc(folder, "replay --segments --limit 99MiB --allocator platform " + file).status == 3);
}

TEST_CASE("segments can be played instead of blocks", "[replay]") {
  const TemporaryFolder folder;
  Script script;
  const std::uint32_t arena = script.place(0, Memory::kArena, 1);
  script.event(Kind::kGrow, arena, 0x1000, 80 * kMiB).allocate(arena, 0x1000, 10 * kMiB);
  script.event(Kind::kShrink, arena, 0x1000, 80 * kMiB);
  const std::string file = script.write(folder);
  CHECK(cubfc(folder, "replay --limit 70MiB --allocator bfc " + file).status == 0);
  CHECK(cubfc(folder, "replay --limit 70MiB --allocator bfc --segments " + file).status == 3);
}

TEST_CASE("replaying a replay's trace under the same policy gives the same trace", "[replay]") {
  const TemporaryFolder folder;
  const std::string file = mixture().write(folder);
  for (const std::string policy :
       {"--allocator bfc", "--allocator bfc --free deferred", "--preallocate whole",
        "--preallocate false", "--allocator vmm", "--allocator vmm --free deferred",
        "--allocator platform", "--mem-fraction 0.5", "--limit 150MiB --allocator bfc",
        "--limit 40MiB --allocator vmm --free deferred"}) {
    INFO(policy);
    const std::string first = folder.file("first.cubfc");
    const std::string second = folder.file("second.cubfc");
    const Ran once = cubfc(folder, "replay " + policy + " --trace " + first + " " + file);
    const Ran twice = cubfc(folder, "replay " + policy + " --trace " + second + " " + first);
    CHECK(once.status == twice.status);
    CHECK(contents_of(first).size() > 1000);
    CHECK(contents_of(first) == contents_of(second));
  }
}

TEST_CASE("a replay's trace has what happened, with who did it and when", "[replay]") {
  const TemporaryFolder folder;
  const std::string file = holes().write(folder);
  cubfc(folder, "replay --allocator bfc --limit 200MiB --trace " + folder.file("t") + " " + file);
  const Recording trace = open_recording(folder.file("t"));
  CHECK(trace.pid == 42);
  CHECK(trace.start_unix_ns == 1'700'000'000'000'000'000);
  CHECK(has(trace.settings, "CUBFC_MEM_LIMIT=200MiB (--limit)"));
  CHECK(trace.devices.at(0).limit_bytes == 200 * kMiB);
  std::uint64_t allocations = 0;
  std::uint64_t grown = 0;
  for (const Event& event : trace.events) {
    grown += event.kind == Kind::kGrow ? event.bytes : 0;
    if (event.kind == Kind::kAllocate) {
      ++allocations;
      CHECK(trace.threads.at(event.thread).id == 4711);
      CHECK(trace.callers.at(event.caller) == "libapp.so");
    }
  }
  CHECK(allocations == 11);
  CHECK(grown >= 100 * kMiB);
  CHECK(trace.closed);
  CHECK(trace.events.back().time_ns == 16'000);
}

TEST_CASE("what cannot be read exits with 1, what cannot be meant with 2", "[replay]") {
  const TemporaryFolder folder;
  const std::string file = holes().write(folder);
  const Ran missing = cubfc(folder, "replay " + folder.file("none"));
  CHECK(missing.status == 1);
  CHECK(missing.err == "cubfc: " + folder.file("none") + ": No such file or directory\n");
  const std::string bad = folder.file("bad", "Thread,Time,Action,Pointer,Size,Stream\n1,0,x\n");
  const Ran unreadable = cubfc(folder, "replay " + bad);
  CHECK(unreadable.status == 1);
  CHECK(unreadable.err == "cubfc: " + bad + ": line 2: the line ends before the size\n");
  Script nothing;
  CHECK(cubfc(folder, "replay " + nothing.write(folder)).status == 1);
  holes().write(folder);
  CHECK(cubfc(folder, "replay --allocator bfc --trace /nonexistent/x " + file).status == 1);
  for (const char* words :
       {"--allocator lru", "--allocator cuda_async", "--limit much", "--limit 1.5", "--total 0",
        "--total 5x", "--preallocate perhaps", "--mem-fraction 7", "--free never", "--unknown",
        "--all-policies --trace x", "--all-policies --allocator bfc", ""}) {
    INFO(words);
    const Ran ran =
        cubfc(folder, std::string("replay ") + words + (*words == '\0' ? "" : " " + file));
    CHECK(ran.status == 2);
    CHECK_FALSE(ran.err.empty());
    CHECK(ran.out.empty());
  }
}

TEST_CASE("nothing but the result is written into a pipe", "[replay]") {
  const TemporaryFolder folder;
  const Ran ran = cubfc(folder, "replay " + mixture().write(folder));
  CHECK(ran.err.empty());
  CHECK_FALSE(has(ran.out, "\033"));
}

TEST_CASE("a command that is none is named", "[replay]") {
  const TemporaryFolder folder;
  const Ran far = cubfc(folder, "foo");
  CHECK(far.status == 2);
  CHECK(far.err == "cubfc: there is no command \"foo\"; see `cubfc --help`\n");
  CHECK(cubfc(folder, "repaly x").err ==
        "cubfc: there is no command \"repaly\"; did you mean \"replay\"?\n");
  CHECK(cubfc(folder, "replay --help").status == 0);
  CHECK(has(cubfc(folder, "replay --help").out, "Example:\n  cubfc replay"));
}

}  // namespace cubfc::recordings
