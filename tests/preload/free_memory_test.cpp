// No byte is lost to a program: what cuMemGetInfo says is free can be had, by each function, and it
// says what it says without cubfc.
#include "catch.h"
#include "preload/figures.h"
#include "preload/launch.h"

using namespace cubfc::test;

namespace {

Figures figures(const std::string& state, const std::string& how, Environment environment,
                bool preloaded, int seed = 0) {
  const std::vector<std::string> command{program("program_free_memory"), state, how,
                                         std::to_string(seed)};
  environment["CUBFC_LOG_LEVEL"] = "off";
  const Outcome outcome =
      preloaded ? run_preloaded(command, environment) : run(command, environment);
  return figures_of(outcome);
}

const std::vector<std::pair<const char*, const char*>> kModes = {
    {"CUBFC_PREALLOCATE", "true"},    {"CUBFC_PREALLOCATE", "false"}, {"CUBFC_FREE", "deferred"},
    {"CUBFC_MEM_FRACTION", "0.5"},    {"CUBFC_MEM_FRACTION", "0.9"},  {"CUBFC_ALLOCATOR", "vmm"},
    {"CUBFC_ALLOCATOR", "cuda_async"}};

}  // namespace

TEST_CASE("whatever blocks are live, the rest of a device can be had as without cubfc",
          "[one_thread]") {
  for (const auto& [variable, value] : kModes) {
    const std::string mode = std::string(variable) + "=" + value;
    // Bare sees a device of the limit's size.
    const double share = mode == "CUBFC_MEM_FRACTION=0.5"   ? 0.5
                         : mode == "CUBFC_MEM_FRACTION=0.9" ? 0.9
                                                            : 1;
    const double least = mode == "CUBFC_ALLOCATOR=vmm" ? 0.99 : 0.98;
    const std::string memory = std::to_string(static_cast<int>(80 * share)) + "GiB";
    for (const char* state : {"empty", "small", "weights", "second"}) {
      for (const char* how : {"piece", "sum", "create", "async", "total"}) {
        const bool is_total = std::string(how) == "total";
        if (is_total && std::string(state) != "empty") {
          continue;
        }
        INFO(mode << " " << state << " " << how);
        const Figures bare = figures(state, how, {{"STANDIN_MEMORY", memory}}, false);
        const Figures ours =
            figures(state, how, {{"STANDIN_MEMORY", "80GiB"}, {variable, value}}, true);
        CHECK(ours.got >= (is_total ? 1 : least) * bare.got);
        CHECK(ours.free >= least * bare.free);
        CHECK(ours.free <= 1.01 * bare.free);
      }
    }
  }
}

TEST_CASE("the first request can be for all that there is, also where the arena is one region",
          "[one_thread]") {
  for (const char* allocator : {"bfc", "vmm"}) {
    for (const char* memory : {"100MiB", "8GiB", "80GiB"}) {
      INFO(allocator << " " << memory);
      const Figures bare = figures("empty", "total", {{"STANDIN_MEMORY", memory}}, false);
      Environment environment{{"CUBFC_PREALLOCATE", "whole"}, {"CUBFC_ALLOCATOR", allocator}};
      environment["STANDIN_MEMORY"] = memory;
      CHECK(figures("empty", "total", environment, true).got == bare.got);
      environment["STANDIN_MEMORY"] = "100GiB";
      environment["CUBFC_MEM_LIMIT"] = memory;
      CHECK(figures("empty", "total", environment, true).got == bare.got);
    }
  }
}

TEST_CASE("in random states what is said to be free can be had", "[one_thread]") {
  for (const auto& [variable, value] : kModes) {
    for (const char* how : {"sum", "create", "async"}) {
      for (int seed = 1; seed <= (kSanitized ? 1 : 6); ++seed) {
        INFO(variable << "=" << value << " " << how << " " << seed);
        const Figures found =
            figures("random", how, {{"STANDIN_MEMORY", "8GiB"}, {variable, value}}, true, seed);
        CHECK(found.free > 0);
        // What is free between blocks of an arena serves blocks that fit, and nothing else.
        const bool is_arena = std::string(value) != "cuda_async";
        const bool by_blocks = std::string(how) == "sum" || std::string(value) == "vmm";
        CHECK(found.got >= (!is_arena ? 0.98 : by_blocks ? 0.94 : 0.75) * found.free);
      }
    }
  }
}
