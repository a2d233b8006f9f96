// device_bench as a user starts it, on the software driver. Nothing here asserts a time.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "catch.h"
#include "run_command.h"

namespace {

using Json = nlohmann::json;

const std::string kPreload = std::string("LD_PRELOAD=") + CUBFC_LIBRARY + " ";

std::pair<int, std::string> run_bench(const std::string& arguments,
                                      const std::string& environment = "") {
  return cubfc::bench::run_command(std::string("env -u LD_PRELOAD LD_LIBRARY_PATH=") +
                                   CUBFC_STANDIN + " " + environment + " " + CUBFC_DEVICE_BENCH +
                                   " " + arguments);
}

// What it wrote; it has to end well.
Json figures(const std::string& arguments, const std::string& environment = "") {
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("device_bench." + std::to_string(getpid()) + ".json");
  const auto [status, output] = run_bench(arguments + " --json " + file.string(), environment);
  INFO(output);
  REQUIRE(status == 0);
  std::ifstream stream(file);
  Json json = Json::parse(stream);
  std::filesystem::remove(file);
  return json;
}

bool positive(const Json& value) {
  return value.is_number() && value.get<double>() > 0;
}

// Of single calls, by the time-stamp counter less what the stamps take: a machine that is slowed
// down while it is calibrated may leave nothing of the fastest, and a slow one too few calls for
// the rarest, which are null then, with a reason.
void check_quantiles(const Json& times) {
  CHECK(positive(times["calls"]));
  double before = 0;
  for (const char* quantile : {"p50_ns", "p99_ns", "p99.9_ns"}) {
    if (times[quantile].is_null()) {
      CHECK(times["reason"].get<std::string>().find("too few calls") == 0);
    } else {
      CHECK(times[quantile].get<double>() >= before);
      before = times[quantile].get<double>();
    }
  }
}

void check_pairs(const Json& points) {
  CHECK(points.size() == 12);
  for (const Json& point : points) {
    INFO(point.dump());
    CHECK(!point.contains("reason"));
    CHECK(positive(point["ns_per_pair"]));
    CHECK(positive(point["pairs_per_second"]));
    CHECK(positive(point["pairs"]));
    CHECK(point.contains("sync_ns_per_batch") == (point["through"] == "async"));
    CHECK(point.contains("allocate") == (point["threads"] == 1));
    if (point["threads"] == 1) {
      check_quantiles(point["allocate"]);
      check_quantiles(point["free"]);
    }
  }
}

void check_loop(const Json& points) {
  CHECK(points.size() == 4);
  for (const Json& point : points) {
    INFO(point.dump());
    CHECK(!point.contains("reason"));
    for (const char* kind : {"allocating", "floor"}) {
      CHECK(positive(point[kind]["host_ns_per_iteration"]));
      CHECK(point[kind]["done_ns_per_iteration"] >= point[kind]["host_ns_per_iteration"]);
    }
  }
}

void check_trace(const Json& traces) {
  REQUIRE(traces.size() == 1);
  INFO(traces.dump());
  CHECK(traces[0]["sizes_divided_by"] == 1);
  CHECK(traces[0]["divided_to_fit"] == false);
  for (const char* pass : {"first_pass", "repeated_pass"}) {
    CHECK(traces[0][pass]["operations_played"] == traces[0]["operations"]);
    CHECK(traces[0][pass]["failed_allocations"] == 0);
    CHECK(traces[0][pass]["peak_live_bytes"] == traces[0]["recorded_peak_bytes"]);
    CHECK(traces[0][pass]["ns_per_pair"].get<double>() >= 0);
  }
}

void check_growth(const Json& growth) {
  INFO(growth.dump());
  CHECK(positive(growth["first_allocation"]["allocate_ns"]));
  CHECK(growth["sizes"].size() == 3);
  for (const Json& point : growth["sizes"]) {
    CHECK(positive(point["allocate_ns"]));
    CHECK(positive(point["free_ns"]));
  }
}

}  // namespace

TEST_CASE("a quick run measures every section, bare and with the library preloaded") {
  for (const bool preloaded : {false, true}) {
    const Json json = figures("all --quick", preloaded ? kPreload : "");
    INFO((preloaded ? "preloaded" : "bare"));
    CHECK(json["cubfc_loaded"] == preloaded);
    CHECK(json["environment"].contains("LD_PRELOAD") == preloaded);
    CHECK(json["settings"]["quick"] == true);
    CHECK(json["machine"]["processor"].is_string());
    CHECK(json["device"]["name"].is_string());
    for (const char* key : {"driver_version", "runtime_version", "total_bytes", "free_bytes"}) {
      CHECK(positive(json["device"][key]));
    }
    check_pairs(json["pairs"]);
    check_loop(json["loop"]);
    check_trace(json["trace"]);
    check_growth(json["growth"]);
    CHECK(positive(json["idle"]["seconds"]));
  }
}

TEST_CASE("what cannot be measured is null, with the reason") {
  const Json too_large = figures("growth --quick --sizes 64MiB,3GiB");
  CHECK(positive(too_large["growth"]["sizes"][0]["allocate_ns"]));
  CHECK(too_large["growth"]["sizes"][1]["allocate_ns"].is_null());
  CHECK(too_large["growth"]["sizes"][1]["reason"] ==
        "1 block of 3GiB would take more than 80% of the free memory");
  CHECK(!too_large.contains("pairs"));

  const Json failing =
      figures("pairs --quick --threads 1 --sizes 1MiB", "STANDIN_FAIL='cuMemAlloc_v2=2@1+*'");
  CHECK(failing["pairs"][0]["ns_per_pair"].is_null());
  CHECK(failing["pairs"][0]["allocate"].is_null());
  CHECK(failing["pairs"][0]["reason"].get<std::string>().find("cudaErrorMemoryAllocation") !=
        std::string::npos);
}

TEST_CASE("blocks are held beside those that are measured, where they fit") {
  const Json json = figures("pairs --quick --threads 2 --live 10 --sizes 1MiB,200MiB");
  CHECK(positive(json["pairs"][0]["ns_per_pair"]));
  CHECK(json["pairs"][0]["live_blocks"] == 10);
  CHECK(json["pairs"][1]["ns_per_pair"].is_null());
}

TEST_CASE("a trace that does not fit the device is played with its sizes divided") {
  const std::string file = CUBFC_SMALL_TRACE;
  const Json whole = figures("trace " + file + " --quick");
  CHECK(whole["trace"][0]["sizes_divided_by"] == 1);
  const Json asked = figures("trace " + file + " --quick --scale 3");
  CHECK(asked["trace"][0]["sizes_divided_by"] == 3);
  CHECK(asked["trace"][0]["divided_to_fit"] == false);
  const Json divided = figures("trace " + file + " --quick", "STANDIN_MEMORY=2MiB");
  CHECK(divided["trace"][0]["sizes_divided_by"] == 2);
  CHECK(divided["trace"][0]["divided_to_fit"] == true);
}

TEST_CASE("a wrong argument is answered with status 2, what is wrong and the usage") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "what to measure is missing"},
      {"speed", "'speed' is not one of pairs, loop, trace, growth, idle, all"},
      {"pairs --fast", "unknown argument '--fast'"},
      {"pairs --sizes", "--sizes needs a value"},
      {"pairs --sizes 1MiB,big", "--sizes takes sizes with commas between them, not '1MiB,big'"},
      {"pairs --threads 0", "--threads takes numbers from 1 to 256"},
      {"pairs --through driver", "--through takes malloc, async or malloc,async, not 'driver'"},
      {"loop --sizes 1MiB", "--sizes does not go with this section"},
      {"loop --seconds-per-point 0", "--seconds-per-point takes a time of a millisecond or more"},
      {"pairs trace.csv", "unknown argument 'trace.csv'"},
      {"trace", "trace needs a file"},
      {"all --quick=1", "--quick takes no value"},
  };
  for (const auto& [arguments, message] : cases) {
    const auto [status, output] = run_bench(arguments);
    INFO(arguments << ": " << output);
    CHECK(status == 2);
    CHECK(output.find(message) != std::string::npos);
    CHECK(output.find("usage: device_bench") != std::string::npos);
  }
}

TEST_CASE("without a device it ends with status 77 and one line") {
  const auto [status, output] = run_bench("all --quick", "STANDIN_DEVICES=0");
  INFO(output);
  CHECK(status == 77);
  CHECK(output.find("there is no CUDA device to measure") != std::string::npos);
  CHECK(output.find('\n') == output.size() - 1);
}

TEST_CASE("a trace that cannot be read is answered with status 1 and its name") {
  const auto [status, output] = run_bench("trace /nothing/like/it.csv");
  CHECK(status == 1);
  CHECK(output.find("/nothing/like/it.csv: No such file or directory") != std::string::npos);
}

TEST_CASE("--help tells about each section and each argument, with an example") {
  const auto [status, output] = run_bench("--help");
  CHECK(status == 0);
  for (const char* word : {"pairs",        "loop",    "trace",     "growth",
                           "idle",         "all",     "--sizes",   "--threads",
                           "--through",    "--live",  "--streams", "--size",
                           "--iterations", "--scale", "--quick",   "--seconds-per-point",
                           "--json",       "--help",  "Example:",  "LD_PRELOAD"}) {
    INFO(word);
    CHECK(output.find(word) != std::string::npos);
  }
}
