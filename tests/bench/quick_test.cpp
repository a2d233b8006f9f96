// The benchmark as a user starts it. Nothing here asserts a time.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "catch.h"
#include "run_command.h"

namespace {

std::pair<int, std::string> run_bench(const std::string& arguments) {
  return cubfc::bench::run_command(std::string(CUBFC_ARENA_BENCH) + " " + arguments);
}

}  // namespace

TEST_CASE("a quick run ends well and writes every figure as JSON") {
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("arena_bench." + std::to_string(getpid()) + ".json");
  const auto [status, output] = run_bench("--quick --json " + file.string());
  INFO(output);
  REQUIRE(status == 0);
  std::ifstream stream(file);
  const auto json = nlohmann::json::parse(stream);
  std::filesystem::remove(file);
  for (const char* key : {"machine", "settings", "inputs", "training_geometric_mean", "jittered",
                          "threads", "regions"}) {
    INFO(key);
    CHECK(json.contains(key));
  }
  CHECK(json["settings"]["quick"] == true);
  REQUIRE(!json["inputs"].empty());
  for (const auto& input : json["inputs"]) {
    INFO(input.dump());
    for (const char* contender : {"floor", "floor_locked", "by_handle", "locked_look_up",
                                  "locked_as_the_shim", "xla_best_fit", "first_fit"}) {
      CHECK(input["pair"][contender]["ns"].is_number());
    }
    for (const char* call : {"allocate", "allocate_steady", "allocate_first", "free"}) {
      CHECK(input["latency_ns"][call]["p99.9"].is_number());
    }
    for (const char* fitter : {"arena", "xla_best_fit", "first_fit"}) {
      CHECK(input["memory"][fitter]["least_capacity_over_peak"] >= 1.0);
      CHECK(input["memory"][fitter]["extent_over_peak"] >= 1.0);
    }
    CHECK(input["host_bytes_per_live_block"].is_number());
  }
  CHECK(json["jittered"]["arena"]["mean"] >= 1.0);
  CHECK(json["jittered"]["arena"]["worst"] >= json["jittered"]["arena"]["mean"]);
  CHECK(json["threads"].size() == 5);
  CHECK(json["regions"].size() == 3);
}

TEST_CASE("a wrong argument is answered with status 2 and with what is wrong") {
  const std::pair<const char*, const char*> cases[] = {
      {"--fast", "unknown argument '--fast'"},
      {"--rounds", "--rounds needs a value"},
      {"--rounds=0", "--rounds takes a number from 1 to 1000, not '0'"},
      {"--jitter many", "--jitter takes a number from 1 to 1000, not 'many'"},
      {"--quick=1", "--quick takes no value"},
      {"--quick --only nothing_like_it", "nothing is called 'nothing_like_it'"},
  };
  for (const auto& [arguments, message] : cases) {
    const auto [status, output] = run_bench(arguments);
    INFO(arguments << ": " << output);
    CHECK(status == 2);
    CHECK(output.find(message) != std::string::npos);
  }
}

TEST_CASE("--help tells about each argument") {
  const auto [status, output] = run_bench("--help");
  CHECK(status == 0);
  for (const char* word : {"--quick", "--only", "--rounds", "--jitter", "--json", "CUBFC_TRACES"}) {
    CHECK(output.find(word) != std::string::npos);
  }
}
