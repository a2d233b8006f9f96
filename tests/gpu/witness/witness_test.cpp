// The witness sees every allocation that reaches the driver, and whether cubfc made it: so what it
// says of a program on a GPU can be believed. Here on the software driver and its CUPTI, whose
// counters are a second opinion.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "preload/launch.h"

using namespace cubfc::test;
using Json = nlohmann::json;

namespace {

struct Seen {
  Outcome outcome;
  std::vector<Json> lines;  // of each process that said something

  std::uint64_t count(const std::string& member) const {
    std::uint64_t total = 0;
    for (const Json& line : lines) {
      for (const auto& [name, calls] : line.at("functions").items()) {
        total += calls.at(member).get<std::uint64_t>();
      }
    }
    return total;
  }

  // What the driver itself counted of the functions that give memory.
  std::uint64_t driver_count() const {
    std::uint64_t total = 0;
    for (const auto& [name, calls] : outcome.driver_calls) {
      const std::string base = name.substr(0, name.find('_'));
      for (const char* gives : {"cuMemAlloc", "cuMemAllocPitch", "cuMemAllocManaged",
                                "cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemCreate",
                                "cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate"}) {
        total += base == gives ? calls : 0;
      }
    }
    return total;
  }
};

// cubfc takes the injection for a tool's and passes calls on, unless it is told otherwise.
Seen witness(const std::vector<std::string>& command, Environment environment) {
  static int number = 0;
  const std::string path = scratch("witness" + std::to_string(number++) + ".json");
  environment["CUDA_INJECTION64_PATH"] = in_build(CUBFC_TEST_WITNESS_LIBRARY);
  environment["CUBFC_TEST_WITNESS"] = path;
  environment.emplace("CUBFC_ALLOCATOR", "bfc");
  Seen seen{run(command, environment), {}};
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    seen.lines.push_back(Json::parse(line));
  }
  return seen;
}

Seen witness_preloaded(const std::vector<std::string>& command, Environment environment = {}) {
  environment.emplace("LD_PRELOAD", preload());
  return witness(command, environment);
}

std::vector<std::vector<std::string>> programs() {
  std::vector<std::vector<std::string>> all{
      {program("program_linked_driver")},     {program("program_dlopened_driver")},
      {program("program_static_runtime")},    {program("program_threads"), "8", "20"},
      {in_build(CUBFC_TEST_RUNTIME_PROGRAM)},
  };
  if (std::filesystem::exists(program("program_vector_add"))) {
    all.push_back({program("program_vector_add")});
  }
  return all;
}

bool any_frame_names(const Json& stack, const std::string& text) {
  return std::any_of(stack.at("frames").begin(), stack.at("frames").end(), [&](const Json& frame) {
    return frame.get<std::string>().find(text) != std::string::npos;
  });
}

// A folder with the software driver and its runtime, but not its CUPTI.
std::string driver_without_cupti() {
  const std::filesystem::path folder = scratch("driver-without-cupti");
  std::filesystem::create_directories(folder);
  for (const auto& entry : std::filesystem::directory_iterator(in_build(CUBFC_TEST_STANDIN))) {
    if (!entry.path().filename().string().starts_with("libcupti")) {
      std::filesystem::copy(entry.path(), folder / entry.path().filename(),
                            std::filesystem::copy_options::overwrite_existing);
    }
  }
  return folder.string();
}

}  // namespace

TEST_CASE("under the preload each allocation that reaches the driver is cubfc's, in every mode") {
  for (const auto& command : programs()) {
    for (const char* allocator : {"bfc", "vmm", "cuda_async", "platform"}) {
      INFO(command[0] << ", " << allocator);
      const Seen seen = witness_preloaded(command, {{"CUBFC_ALLOCATOR", allocator}});
      INFO(seen.outcome.err);
      CHECK(seen.outcome.status == 0);
      REQUIRE(seen.lines.size() == 1);
      INFO(seen.lines[0].dump(1));
      CHECK(seen.lines[0].at("program") == command[0]);
      CHECK(seen.count("by_cubfc") > 0);
      CHECK(seen.count("by_cubfc") == seen.driver_count());
      CHECK(seen.count("past_cubfc") == 0);
      CHECK(seen.count("unknown") == 0);
      CHECK(seen.lines[0].at("stacks").empty());
    }
  }
}

TEST_CASE("a call that goes past cubfc is seen, and its stack names the program") {
  const Seen seen = witness_preloaded({in_build(CUBFC_TEST_GOES_PAST), "20"});
  INFO(seen.outcome.err);
  CHECK(seen.outcome.status == 0);
  REQUIRE(seen.lines.size() == 1);
  INFO(seen.lines[0].dump(1));
  CHECK(seen.count("past_cubfc") == 20);
  CHECK(seen.count("by_cubfc") > 0);
  CHECK(seen.count("by_cubfc") + 20 == seen.driver_count());
  CHECK(seen.count("unknown") == 0);
  const Json& stacks = seen.lines[0].at("stacks");
  CHECK(stacks.size() == 8);  // the first ones
  for (const Json& stack : stacks) {
    CHECK(stack.at("function") == "cuMemAlloc_v2");
    CHECK(stack.at("class") == "past_cubfc");
    CHECK(any_frame_names(stack, "libcuda.so.1: cuMemAlloc_v2"));
    CHECK(any_frame_names(stack, "goes_past_cubfc: "));
  }
}

TEST_CASE("where the stack cannot be walked, the witness says that it does not know") {
  const Seen seen = witness_preloaded(
      {in_build(CUBFC_TEST_GOES_PAST), "3", in_build(CUBFC_TEST_WITHOUT_UNWIND_TABLES)});
  INFO(seen.outcome.err);
  REQUIRE(seen.lines.size() == 1);
  INFO(seen.lines[0].dump(1));
  CHECK(seen.count("unknown") == 3);
  CHECK(seen.count("past_cubfc") == 0);
  REQUIRE(seen.lines[0].at("stacks").size() == 3);
  CHECK(any_frame_names(seen.lines[0].at("stacks")[0], "libwithout_unwind_tables.so: "));
}

TEST_CASE("without the preload every allocation is past cubfc, from threads at once, too") {
  std::vector<std::vector<std::string>> commands = programs();
  commands.push_back({program("program_threads"), "16", "50"});
  for (const auto& command : commands) {
    INFO(command[0]);
    const Seen seen = witness(command, {});
    INFO(seen.outcome.err);
    CHECK(seen.outcome.status == 0);
    REQUIRE(seen.lines.size() == 1);
    INFO(seen.lines[0].dump(1));
    CHECK(seen.count("past_cubfc") > 0);
    CHECK(seen.count("past_cubfc") == seen.driver_count());
    CHECK(seen.count("by_cubfc") == 0);
    CHECK(seen.count("unknown") == 0);
  }
}

TEST_CASE("a program runs as without the witness where there is no CUPTI that serves") {
  const std::vector<std::string> command{program("program_linked_driver")};
  const Environment without{{"LD_LIBRARY_PATH", driver_without_cupti()}};
  const Outcome bare = run(command, without);
  REQUIRE(bare.status == 0);
  for (const Seen& seen : {witness(command, without), witness_preloaded(command, without)}) {
    CHECK(seen.outcome.status == 0);
    CHECK(seen.outcome.out == bare.out);
    REQUIRE(seen.lines.size() == 1);
    CHECK(seen.lines[0].at("program") == command[0]);
    CHECK(!seen.lines[0].at("error").get<std::string>().empty());
    CHECK(!seen.lines[0].contains("functions"));
  }
}

TEST_CASE("each process that uses CUDA says what it saw, once, however it forks and ends") {
  struct Case {
    const char* end;
    std::size_t lines;
  };
  for (const Case& one : {Case{"return", 1}, Case{"exit", 1}, Case{"quick_exit", 1},
                          Case{"threads", 1}, Case{"atexit", 1}, Case{"_exit", 0},
                          Case{"fork_before", 2}, Case{"fork_after", 1}, Case{"fork_exec", 2}}) {
    const std::vector<std::string> command{program("program_lifetimes"), one.end};
    const Outcome bare = run(command);
    const Seen seen = witness_preloaded(command);
    INFO(one.end << ": " << seen.outcome.err);
    CHECK(seen.outcome.status == bare.status);
    CHECK(seen.outcome.out == bare.out);
    REQUIRE(seen.lines.size() == one.lines);
    CHECK(seen.count("by_cubfc") >= one.lines);
    CHECK(seen.count("past_cubfc") == 0);
    CHECK(seen.count("unknown") == 0);
    if (one.lines == 2) {
      CHECK(seen.lines[0].at("pid") != seen.lines[1].at("pid"));
    }
  }
}

TEST_CASE("a process that does not use CUDA says nothing") {
  CHECK(witness_preloaded({"sh", "-c", "true"}).lines.empty());
}
