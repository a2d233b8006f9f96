// The policy as a program meets it: limits, sharing, and no harm at the defaults.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.h"
#include "preload/launch.h"

using namespace cubfc::test;

namespace {

std::vector<std::string> take(const char* percent, const char* step = "0",
                              const char* first = "0") {
  return {program("program_memory_info"), "--percent", percent, "--step", step, "--first", first};
}

// What CUBFC_OOM_REPORT's file holds: a line for each report.
std::vector<nlohmann::json> reports_in(const std::string& path) {
  std::vector<nlohmann::json> reports;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    reports.push_back(nlohmann::json::parse(line));
  }
  return reports;
}

}  // namespace

TEST_CASE("with a fraction the program sees a device of that size, takes it, and no more") {
  for (const char* variable : {"CUBFC_MEM_FRACTION", "CUBFC_MEM_LIMIT"}) {
    const std::string value = std::string(variable) == "CUBFC_MEM_FRACTION" ? "0.5" : "4GiB";
    for (const char* preallocate : {"true", "false"}) {
      for (const char* step : {"0", "4194304"}) {
        INFO(variable << ", preallocate " << preallocate << ", step " << step);
        const Outcome outcome = run_preloaded(
            // The end of each slice fits no block of 4 MiB.
            take(std::string(step) == "0" ? "99" : "98", step),
            {{variable, value}, {"CUBFC_PREALLOCATE", preallocate}, {"STANDIN_MEMORY", "8GiB"}});
        INFO(outcome.out << outcome.err);
        CHECK(outcome.status == 0);
        CHECK(outcome.err.find("of 4294967296") != std::string::npos);
        CHECK(outcome.err.find("out of memory on GPU 0") != std::string::npos);
        CHECK(outcome.err.find(std::string(variable)) != std::string::npos);
        CHECK(outcome.err.find("cause     ") != std::string::npos);
      }
    }
  }
}

TEST_CASE("a limit of another project's name limits, and leaves the reported total alone") {
  const Outcome outcome = run_preloaded(take("99"), {{"XLA_PYTHON_CLIENT_MEM_FRACTION", "0.5"}});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.err.find("of 2147483648") != std::string::npos);
  CHECK(outcome.err.find("limit of 1.00 GiB (XLA_PYTHON_CLIENT_MEM_FRACTION=0.5)") !=
        std::string::npos);
}

TEST_CASE("where XLA's runtime is loaded, its settings are its own; cubfc's names hold") {
  const auto run = [](const char* percent, Environment environment) {
    environment["LD_PRELOAD"] = preload(preload_program("xla_cuda_plugin.so"));
    environment["CUBFC_LOG_LEVEL"] = "info";
    return run_together({take(percent)}, environment).front();
  };
  const char* const told = "the program uses xla_cuda_plugin.so, which reads settings";
  const Outcome theirs = run("99", {{"XLA_PYTHON_CLIENT_MEM_FRACTION", "0.5"},
                                    {"XLA_PYTHON_CLIENT_ALLOCATOR", "platform"}});
  INFO(theirs.out << theirs.err);
  CHECK(theirs.status == 0);
  CHECK(theirs.err.find("bfc; limit none") != std::string::npos);
  CHECK(theirs.err.find(told) != std::string::npos);
  const Outcome ours =
      run("99", {{"XLA_PYTHON_CLIENT_MEM_FRACTION", "0.9"}, {"CUBFC_MEM_FRACTION", "0.5"}});
  INFO(ours.out << ours.err);
  CHECK(ours.status == 0);
  CHECK(ours.err.find("limit 1.00 GiB (CUBFC_MEM_FRACTION)") != std::string::npos);
  CHECK(ours.err.find(told) == std::string::npos);
}

TEST_CASE("where the GPU's memory is the host's, nothing is taken ahead unless asked for") {
  const auto arena_of = [](Environment environment) {
    environment["STANDIN_INTEGRATED"] = "1";
    environment["CUBFC_LOG_LEVEL"] = "info";
    return run_preloaded(take("10"), environment).err;
  };
  CHECK(arena_of({}).find("arena 1.50 GiB of") == std::string::npos);
  CHECK(arena_of({{"CUBFC_PREALLOCATE", "true"}}).find("arena 1.50 GiB of") != std::string::npos);
  CHECK(arena_of({{"CUBFC_MEM_FRACTION", "0.5"}}).find("arena 1.00 GiB of") != std::string::npos);
}

TEST_CASE("what would leave the host less than its reserve is refused, with the reason") {
  for (const char* allocator : {"bfc", "vmm", "cuda_async", "platform"}) {
    INFO(allocator);
    const Environment environment{{"CUBFC_ALLOCATOR", allocator}, {"CUBFC_HOST_RESERVE", "100TiB"}};
    Environment integrated = environment;
    integrated["STANDIN_INTEGRATED"] = "1";
    const Outcome refused = run_preloaded(take("10"), integrated);
    INFO(refused.out << refused.err);
    CHECK(refused.err.find("free 0 of 2147483648") != std::string::npos);
    CHECK(refused.err.find("100.0 TiB of the host's memory stays free (CUBFC_HOST_RESERVE)") !=
          std::string::npos);
    CHECK(run_preloaded(take("10"), environment).status == 0);
    integrated["CUBFC_HOST_RESERVE"] = "1MiB";
    CHECK(run_preloaded(take("10"), integrated).status == 0);
  }
}

TEST_CASE("two processes with half of a device each run side by side") {
  const Environment environment{{"LD_PRELOAD", preload()},
                                {"CUBFC_MEM_FRACTION", "0.5"},
                                {"STANDIN_SHARED", scratch("shared-usage")}};
  const auto command = std::vector<std::string>{program("program_threads"), "4", "60"};
  const auto all_of_it = take("98", "4194304");
  for (const Outcome& outcome : run_together({command, all_of_it}, environment)) {
    INFO(outcome.out << outcome.err);
    CHECK(outcome.status == 0);
  }
}

TEST_CASE("four processes with a quarter of the device each start together, again and again") {
  for (const char* allocator : {"bfc", "vmm", "cuda_async"}) {
    for (const char* preallocate : {"true", "false"}) {
      const Environment environment{{"LD_PRELOAD", preload()},
                                    {"CUBFC_ALLOCATOR", allocator},
                                    {"CUBFC_PREALLOCATE", preallocate},
                                    {"CUBFC_ASYNC_PREALLOCATE", "-1"},
                                    {"CUBFC_MEM_FRACTION", "0.25"},
                                    {"CUBFC_MEM_FRACTION_OF", "total"},
                                    {"STANDIN_SHARED", scratch("shared-start")}};
      int failed = 0;
      std::string said;
      const bool grown = std::string(preallocate) == "false";
      for (int round = 0; round < (kSanitized ? 3 : grown ? 20 : 100); ++round) {
        // Grown in blocks of 4 MiB, the end of each region fits none.
        const auto command = take("96", round % 2 == 0 ? "0" : "4194304");
        for (const Outcome& outcome :
             run_together({command, command, command, command}, environment)) {
          failed += outcome.status == 0 ? 0 : 1;
          said += outcome.status == 0 ? "" : outcome.out + outcome.err;
        }
      }
      INFO(allocator << ", preallocate " << preallocate << ":\n" << said);
      CHECK(failed == 0);
    }
  }
}

TEST_CASE("with nothing set a program that needs 95% of the device runs") {
  for (const Outcome& outcome : {run_preloaded(take("95")), run_preloaded(take("95", "1048576"))}) {
    INFO(outcome.out << outcome.err);
    CHECK(outcome.status == 0);
  }
}

TEST_CASE("where the device has less than is to be preallocated, one line says what was got") {
  // Others take memory meanwhile. A warning where it was asked for.
  Environment environment{{"STANDIN_FAIL", "cuMemCreate=2@20+*"}};
  CHECK(run_preloaded({program("program_linked_driver")}, environment).err.empty());
  for (const char* variable : {"CUBFC_PREALLOCATE", "CUBFC_LOG_LEVEL"}) {
    Environment more = environment;
    more[variable] = variable == std::string("CUBFC_LOG_LEVEL") ? "info" : "true";
    const Outcome outcome = run_preloaded({program("program_linked_driver")}, more);
    INFO(variable << ": " << outcome.err);
    CHECK(outcome.status == 0);
    CHECK(outcome.err.find("asked for 1.50 GiB: the device has less") != std::string::npos);
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  }
}

TEST_CASE("the reserve stays free, and the preallocation limit holds") {
  const Outcome reserve = run_preloaded(take("99", "4194304"), {{"CUBFC_RESERVE", "1536MiB"}});
  INFO(reserve.out << reserve.err);
  CHECK(reserve.err.find("CUBFC_RESERVE") != std::string::npos);
  const Outcome limited =
      run_preloaded({program("program_linked_driver")},
                    {{"CUBFC_PREALLOCATE_LIMIT", "64MiB"}, {"CUBFC_SHOW_STATS", "1"}});
  CHECK(limited.err.find("of 64.00 MiB") != std::string::npos);
}

TEST_CASE("a limit that cannot be used refuses device memory and explains itself once") {
  for (const auto& [variable, value] : std::vector<std::pair<std::string, std::string>>{
           {"CUBFC_MEM_LIMIT", "8Gigs"}, {"CUBFC_MEM_FRACTION", "1.5"}}) {
    const Outcome outcome = run_preloaded({program("program_linked_driver")}, {{variable, value}});
    INFO(outcome.err);
    CHECK(outcome.status != 0);
    const std::string said = variable + "=\"" + value + "\" cannot be used as a limit";
    CHECK(outcome.err.find(said) != std::string::npos);
    CHECK(outcome.err.find(said) == outcome.err.rfind(said));
    CHECK(outcome.err.find("cannot be read") == std::string::npos);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') ==
          2);  // that, and one line for what failed
    CHECK(outcome.driver_calls.count("cuMemAlloc_v2") == 0);
  }
}

TEST_CASE("a bad value and an unknown name get one warning each, and the program runs") {
  const Outcome outcome =
      run_preloaded({program("program_linked_driver")},
                    {{"CUBFC_PREALLOCATE", "perhaps"}, {"CUBFC_SHOW_STAT", "1"}});
  CHECK(outcome.status == 0);
  CHECK(outcome.err.find("perhaps") != std::string::npos);
  CHECK(outcome.err.find("CUBFC_SHOW_STATS") != std::string::npos);
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 2);
}

TEST_CASE("the log goes to the file that was asked for, and nothing to stderr") {
  const std::string path = scratch("log-%p.txt");
  const Outcome outcome = run_preloaded({program("program_linked_driver")},
                                        {{"CUBFC_LOG_LEVEL", "trace"}, {"CUBFC_LOG_FILE", path}});
  CHECK(outcome.status == 0);
  CHECK(outcome.err.empty());
  bool found = false;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(path).parent_path())) {
    const std::string name = entry.path().filename().string();
    found = found || (name.starts_with("log-") && name != "log-%p.txt" && entry.file_size() > 500);
  }
  CHECK(found);
  const Outcome nowhere =
      run_preloaded({program("program_linked_driver")},
                    {{"CUBFC_LOG_LEVEL", "info"}, {"CUBFC_LOG_FILE", "/proc/no-such-folder/log"}});
  CHECK(nowhere.status == 0);
  CHECK(nowhere.err.find("/proc/no-such-folder/log") != std::string::npos);
}

TEST_CASE("the summary is shown when asked for, with what happened") {
  const Outcome quiet = run_preloaded({program("program_linked_driver")});
  CHECK(quiet.err.empty());
  const Outcome outcome =
      run_preloaded({program("program_linked_driver")}, {{"CUBFC_SHOW_STATS", "1"}});
  CHECK(outcome.err.find("cubfc: GPU 0: peak ") == 0);
  CHECK(outcome.err.find(" of 1.50 GiB, ") != std::string::npos);
  CHECK(outcome.err.find(" driver calls; ") != std::string::npos);
  CHECK(outcome.err.find(", 0 failed\n") != std::string::npos);
}

TEST_CASE("under a tool that watches allocations each goes to the driver, and one line says so") {
  const Outcome outcome =
      run_preloaded({program("program_linked_driver")}, {{"CUDA_INJECTION64_PATH", "/tool.so"}});
  CHECK(outcome.status == 0);
  CHECK(outcome.driver_calls.at("cuMemAlloc_v2") > 1);
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  const Outcome told =
      run_preloaded({program("program_linked_driver")},
                    {{"CUDA_INJECTION64_PATH", "/tool.so"}, {"CUBFC_ALLOCATOR", "bfc"}});
  CHECK(told.driver_calls.at("cuMemAlloc_v2") == 2);  // to preallocate
  CHECK(told.err.empty());
}

namespace {

// Which lacks the functions that came later.
const Environment kOldDriver{{"STANDIN_DRIVER_VERSION", "11040"},
                             {"LD_LIBRARY_PATH", CUBFC_TEST_BUILD "/tests/standin/lib-11.4"}};

}  // namespace

TEST_CASE("a driver that is too old is left alone, and one line says so") {
  const Outcome outcome = run_preloaded({program("program_dlopened_driver")}, kOldDriver);
  const Outcome bare = run({program("program_dlopened_driver")}, kOldDriver);
  CHECK(bare.status == 0);
  CHECK(outcome.status == bare.status);
  CHECK(outcome.out == bare.out);
  CHECK(outcome.err.find("cubfc needs 12.0") != std::string::npos);
  CHECK(outcome.driver_calls.at("cuMemAlloc_v2") == bare.driver_calls.at("cuMemAlloc_v2"));
}

TEST_CASE("a driver that is too old for a limit gives nothing, unless others' words ask for it") {
  struct Case {
    Environment environment;
    bool gives;
    const char* said;
  };
  const Case cases[] = {
      {{{"CUBFC_MEM_LIMIT", "1GiB"}}, false, "to keep CUBFC_MEM_LIMIT: no device memory is given"},
      {{{"CUBFC_MEM_FRACTION", "0.5"}}, false, "to keep CUBFC_MEM_FRACTION"},
      {{{"CUBFC_GROUP", "a"}, {"CUBFC_GROUP_LIMIT", "1GiB"}}, false, "to keep CUBFC_GROUP_LIMIT"},
      {{{"CUBFC_MEM_LIMIT", "much"}}, false, "to keep a limit"},
      {{{"CUDA_DEVICE_MEMORY_LIMIT", "1g"}}, true, "nothing is intercepted, and no limit is kept"},
      {{{"CUBFC_MEM_LIMIT", "1GiB"}, {"CUBFC_DISABLE", "1"}}, true, ""},
  };
  for (Case each : cases) {
    INFO(each.said);
    each.environment.insert(kOldDriver.begin(), kOldDriver.end());
    const Outcome outcome = run_preloaded({program("program_dlopened_driver")}, each.environment);
    INFO(outcome.out << outcome.err);
    CHECK((outcome.status == 0) == each.gives);
    CHECK(outcome.err.find(each.said) != std::string::npos);
    CHECK((outcome.driver_calls.count("cuMemAlloc_v2") > 0) == each.gives);
    CHECK((outcome.driver_calls.count("cuCtxCreate_v2") +
               outcome.driver_calls.count("cuDevicePrimaryCtxRetain") >
           0) == each.gives);
  }
}

TEST_CASE(
    "where the driver refuses what an allocator is made of, another serves, and a line says so") {
  struct Case {
    const char* allocator;
    const char* fails;
    const char* said;
  };
  const Case cases[] = {
      {"vmm", "cuMemCreate=801@1+*",
       "cannot map memory; it gets CUBFC_ALLOCATOR=bfc instead of vmm"},
      {"vmm", "cuMemAddressReserve=2@1+*", "cannot map memory (CUDA_ERROR_OUT_OF_MEMORY)"},
      {"vmm", "cuMemMap=801@1+*", "it gets CUBFC_ALLOCATOR=bfc instead of vmm"},
      {"vmm", "cuMemSetAccess=801@1+*", "it gets CUBFC_ALLOCATOR=bfc instead of vmm"},
      {"vmm", "cuMemCreate=801@2+*", "answers CUBFC_ALLOCATOR=vmm with"},
      {"vmm", "cuMemAddressReserve=2@2+*", "answers CUBFC_ALLOCATOR=vmm with"},
      {"cuda_async", "cuMemPoolCreate=2@1+*", "it gets CUBFC_ALLOCATOR=bfc instead of cuda_async"},
      {"cuda_async", "cuMemPoolCreate=2@2+*", "answers CUBFC_ALLOCATOR=cuda_async with"},
      {"cuda_async", "cuMemAllocFromPoolAsync=801@1+*", "answers CUBFC_ALLOCATOR=cuda_async with"},
  };
  for (const Case& each : cases) {
    INFO(each.allocator << ", " << each.fails);
    const Outcome outcome =
        run_preloaded(take("50", "4194304"), {{"CUBFC_ALLOCATOR", each.allocator},
                                              {"STANDIN_FAIL", each.fails},
                                              {"CUBFC_PREALLOCATE", "false"}});
    INFO(outcome.out << outcome.err);
    CHECK(outcome.status == 0);
    const std::size_t first = outcome.err.find(each.said);
    CHECK(first != std::string::npos);
    CHECK(outcome.err.find(each.said, first + 1) == std::string::npos);
  }
}

TEST_CASE("a driver that fails an allocation for another reason has its error passed on") {
  // 700: CUDA_ERROR_ILLEGAL_ADDRESS, an error of earlier work.
  const Outcome bare =
      run({program("program_linked_driver")}, {{"STANDIN_FAIL", "cuMemAlloc_v2=700@1+*"}});
  const Outcome outcome = run_preloaded({program("program_linked_driver")},
                                        {{"STANDIN_FAIL", "cuMemAlloc_v2=700@1+*"}});
  CHECK(outcome.status == bare.status);
  CHECK(outcome.out == bare.out);
}

TEST_CASE("the report's cause is what it is") {
  const struct {
    const char* state;
    const char* how;
    Environment environment;
    const char* cause;   // part of it
    const char* advice;  // likewise; empty: none
  } kCases[] = {
      {"empty", "ask:2000", {}, "larger than the device (1.00 GiB)", ""},
      {"empty", "create:2000", {}, "larger than the device (1.00 GiB)", ""},
      {"empty",
       "ask:300",
       {{"CUBFC_MEM_LIMIT", "256MiB"}},
       "larger than the limit of 256.0 MiB (CUBFC_MEM_LIMIT)",
       "a higher limit, at least CUBFC_MEM_LIMIT=304MiB"},
      {"fill:400",
       "ask:300",
       {{"CUBFC_MEM_FRACTION", "0.5"}},
       "over the limit",
       "a higher limit, at least CUBFC_MEM_FRACTION=0.69"},
      // The device has not so much.
      {"empty",
       "ask:1000",
       {{"CUBFC_MEM_LIMIT", "256MiB"}, {"STANDIN_RESERVED", "100MiB"}},
       "larger than the limit",
       ""},
      {"fill:200",
       "ask:100",
       {{"CUBFC_MEM_LIMIT", "256MiB"}},
       "over the limit (200.0 MiB of 256.0 MiB taken)",
       "a higher limit, at least CUBFC_MEM_LIMIT=304MiB"},
      {"fill:200",
       "create:100",
       {{"CUBFC_MEM_LIMIT", "256MiB"}},
       "over the limit",
       "a higher limit"},
      {"fill:900", "ask:500", {}, "device full", ""},
      {"fill:900", "create:500", {}, "device full", ""},
      {"fill:900", "ask:500", {{"CUBFC_ALLOCATOR", "vmm"}}, "device full", ""},
      {"fill:900", "ask:500", {{"CUBFC_ALLOCATOR", "cuda_async"}}, "device full", ""},
      {"fill:900", "ask:500", {{"CUBFC_ALLOCATOR", "platform"}}, "device full", ""},
      {"fill:600",
       "ask:300",
       {{"CUBFC_RESERVE", "256MiB"}},
       "CUBFC_RESERVE keeps 256.0 MiB",
       "a smaller CUBFC_RESERVE"},
      {"gaps:900",
       "ask:400",
       {},
       "fragmentation: enough is free, not in one piece",
       "CUBFC_ALLOCATOR=vmm"},
      // No hole has a page of memory that could move.
      {"holes:1000", "ask:400", {}, "fragmentation: enough is free, not in one piece", ""},
      {"holes:200", "ask:90", {{"CUBFC_MEM_LIMIT", "216MiB"}}, "fragmentation", ""},
      // Under vmm nothing is lost to lying apart: parts of pages are no use to a larger block.
      {"holes:200",
       "ask:90",
       {{"CUBFC_MEM_LIMIT", "216MiB"}, {"CUBFC_ALLOCATOR", "vmm"}},
       "over the limit",
       "a higher limit"},
      {"holes:1000",
       "create:400",
       {},
       "device full; what is free in the arena lies between its blocks",
       ""},
      {"captured:600",
       "ask:500",
       {},
       "waiting: memory that was freed is used again when the work before it",
       ""},
      {"empty", "ask:10", {{"CUBFC_MEM_FRACTION", "2"}}, "the limit cannot be used", ""},
      {"empty",
       "ask:10",
       {{"STANDIN_FAIL", "cuMemAlloc_v2=2+*"}},
       "the driver refuses, though the device has enough free",
       ""},
  };
  const struct {
    const char* words;
    const char* name;
  } kNames[] = {{"larger than the device", "larger_than_device"},
                {"larger than the limit", "larger_than_limit"},
                {"over the limit", "over_limit"},
                {"device full", "device_full"},
                {"CUBFC_RESERVE keeps", "reserve"},
                {"fragmentation", "fragmented"},
                {"waiting", "waiting"},
                {"cannot be used", "unusable_limit"},
                {"the driver refuses", "driver"}};
  for (const auto& [state, how, environment, cause, advice] : kCases) {
    const std::string oom_report = scratch("oom.jsonl");
    std::filesystem::remove(oom_report);
    Environment all = environment;
    all.emplace("CUBFC_OOM_REPORT", oom_report);
    all.emplace("STANDIN_MEMORY", "1GiB");
    const Outcome outcome =
        run_preloaded({program("program_free_memory"), state, how}, std::move(all));
    INFO(state << " " << how << "\n" << outcome.out << outcome.err);
    CHECK(outcome.status == 0);
    CHECK(outcome.out.ends_with(" 0\n"));
    CHECK(outcome.err.find(cause) != std::string::npos);
    const bool has_advice = outcome.err.find("  try  ") != std::string::npos ||
                            outcome.err.find("; try ") != std::string::npos;
    CHECK(has_advice == (*advice != '\0'));
    CHECK(outcome.err.find(advice) != std::string::npos);
    // As JSON it is the same.
    const auto reports = reports_in(oom_report);
    REQUIRE(reports.size() == 1);
    const auto& json = reports[0];
    const auto in_words = json["cause_in_words"].get<std::string>();
    CHECK(outcome.err.find(in_words) != std::string::npos);
    CHECK(in_words.find(cause) != std::string::npos);
    CHECK(outcome.err.find(json["advice"].get<std::string>()) != std::string::npos);
    CHECK(json["advice"].get<std::string>().empty() == (*advice == '\0'));
    const auto name = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& each) {
      return in_words.find(each.words) != std::string::npos;
    });
    REQUIRE(name != std::end(kNames));
    CHECK(json["cause"] == name->name);
    CHECK(json["limit"].is_null() == (outcome.err.find("MEM_LIMIT") == std::string::npos &&
                                      outcome.err.find("MEM_FRACTION") == std::string::npos));
  }
}

TEST_CASE("reports as JSON are complete, there at once, and written whatever the log's level is") {
  const std::string path = scratch("oom-appended.jsonl");
  std::filesystem::remove(path);
  const Environment environment{
      {"STANDIN_MEMORY", "1GiB"}, {"CUBFC_LOG_LEVEL", "off"}, {"CUBFC_OOM_REPORT", path}};
  for (std::size_t run = 1; run <= 2; ++run) {  // the second is appended
    const Outcome outcome =
        run_preloaded({program("program_free_memory"), "holes:1000", "ask:400"}, environment);
    INFO(outcome.err);
    CHECK(outcome.status == 0);
    CHECK(outcome.err.empty());
    REQUIRE(reports_in(path).size() == run);
  }
  const auto json = reports_in(path)[1];
  INFO(json.dump(2));
  CHECK(json["pid"].get<int>() > 0);
  CHECK(json["pid"] == json["thread"]);
  CHECK(json["pid"] != reports_in(path)[0]["pid"]);
  CHECK(json["time_unix_ns"].get<std::uint64_t>() > 1'600'000'000'000'000'000);
  CHECK(json["program"].get<std::string>().find("holes:1000 ask:400") != std::string::npos);
  CHECK(json["bytes_asked"] == 400 << 20);
  CHECK(json["function"].get<std::string>().starts_with("cuMemAlloc"));
  CHECK(json["device"]["number"] == 0);
  CHECK(json["device"]["total_bytes"] == 1 << 30);
  const auto& arena = json["arena"];
  CHECK(arena["bytes_in_use"].get<std::uint64_t>() + arena["bytes_idle"].get<std::uint64_t>() ==
        arena["bytes"]);
  CHECK(arena["largest_free_block_bytes"].get<std::uint64_t>() < 400 << 20);
  CHECK(arena["map"].get<std::string>().size() == 100);
  std::uint64_t in_blocks = 0;
  for (const auto& size_class : arena["sizes"]) {
    in_blocks += size_class["bytes_in_use"].get<std::uint64_t>();
  }
  CHECK(in_blocks == arena["bytes_in_use"]);
  REQUIRE(json["callers"].size() == 1);
  CHECK(json["callers"][0]["name"] == "program_free_memory");
  CHECK(json["callers"][0]["bytes_in_use"] == arena["bytes_in_use"]);
}

TEST_CASE("what the runtime allocates in a stream is its caller's, not the runtime's") {
  const std::string path = scratch("oom-in-stream.jsonl");
  for (const char* served_by : {"driver", "arena"}) {
    INFO(served_by);
    std::filesystem::remove(path);
    const Outcome outcome = run_preloaded({preload_program("allocates_in_stream")},
                                          {{"STANDIN_MEMORY", "1GiB"},
                                           {"CUBFC_LOG_LEVEL", "off"},
                                           {"CUBFC_STREAM_ORDERED", served_by},
                                           {"CUBFC_OOM_REPORT", path}});
    INFO(outcome.out + outcome.err);
    REQUIRE(outcome.status == 0);
    REQUIRE(reports_in(path).size() == 1);
    const auto json = reports_in(path)[0];
    INFO(json.dump(2));
    REQUIRE(json["callers"].size() == 1);
    CHECK(json["callers"][0]["name"] == "allocates_in_stream");
    CHECK(json["callers"][0]["bytes_in_use"].get<std::uint64_t>() >= 30 << 20);
  }
}

TEST_CASE("a file for reports that cannot be written is said, and harms nothing") {
  const std::string link = scratch("oom-link");
  const std::string target = scratch("oom-target");
  std::filesystem::create_symlink(target, link);
  for (const std::string& path : {link, std::string("/proc/no-such-folder/oom"), scratch("")}) {
    const Outcome outcome = run_preloaded({program("program_free_memory"), "fill:900", "ask:500"},
                                          {{"STANDIN_MEMORY", "1GiB"}, {"CUBFC_OOM_REPORT", path}});
    INFO(path << "\n" << outcome.err);
    CHECK(outcome.status == 0);
    CHECK(outcome.err.find("device full") != std::string::npos);
    CHECK(outcome.err.find("CUBFC_OOM_REPORT: " + path) != std::string::npos);
  }
  CHECK_FALSE(std::filesystem::exists(target));  // a link is not followed
}

TEST_CASE("a first failure is a line, and what comes of it decides whether the report follows") {
  const auto count = [](const std::string& text, const char* what) {
    std::size_t times = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
      ++times;
    }
    return times;
  };
  const std::string path = scratch("oom-first.jsonl");
  for (const char* allocator : {"bfc", "vmm", "cuda_async", "platform"}) {
    const auto run = [&](const char* how) {
      std::filesystem::remove(path);
      const Outcome outcome = run_preloaded(
          {program("program_free_memory"), "fill:900", how},
          {{"STANDIN_MEMORY", "1GiB"}, {"CUBFC_ALLOCATOR", allocator}, {"CUBFC_OOM_REPORT", path}});
      UNSCOPED_INFO(allocator << " " << how << "\n" << outcome.out << outcome.err);
      CHECK(outcome.status == 0);
      for (const auto& json : reports_in(path)) {  // each is in full
        CHECK(json["arena"].contains("map"));
        CHECK(json["cause"] == "device_full");
      }
      return outcome;
    };
    const auto line = [](const Outcome& outcome) {
      const std::size_t at = outcome.err.find("out of memory on GPU 0");
      REQUIRE(at != std::string::npos);
      return outcome.err.substr(at, outcome.err.find('\n', at) - at);
    };
    // Had at the second try, after others are freed.
    const Outcome recovers = run("recover:400");
    CHECK(recovers.out.ends_with(" 400\n"));
    CHECK(count(recovers.err, "out of memory") == 1);
    CHECK(count(recovers.err, "  cause  ") == 0);
    CHECK(line(recovers).find("400.0 MiB by cuMemAlloc: device full") != std::string::npos);
    CHECK(reports_in(path).size() == 1);
    // Refused again: the report comes then, and not once more at the end.
    const Outcome again = run("again:400");
    CHECK(count(again.err, "out of memory") == 2);
    CHECK(count(again.err, "  cause  ") == 1);
    CHECK(line(again).find(": device full") != std::string::npos);
    CHECK(reports_in(path).size() == 2);
    // Never tried again: at the end.
    const Outcome once = run("ask:400");
    CHECK(count(once.err, "out of memory") == 2);
    CHECK(count(once.err, "  cause  ") == 1);
    CHECK(line(once).find(": device full") != std::string::npos);
    CHECK(reports_in(path).size() == 1);
  }
}

TEST_CASE("a program that finds out by trying how much there is gets one report") {
  const Outcome outcome = run_preloaded({program("program_free_memory"), "small", "probe"},
                                        {{"STANDIN_MEMORY", "1GiB"}});
  INFO(outcome.out << outcome.err);
  CHECK(outcome.status == 0);
  CHECK(outcome.err.find("out of memory on") != std::string::npos);
  CHECK(outcome.err.find("  cause  ") != std::string::npos);
  CHECK(outcome.err.find("  cause  ") == outcome.err.rfind("  cause  "));
}
