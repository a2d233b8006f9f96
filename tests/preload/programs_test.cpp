// Programs that know nothing of cubfc do the same under it: same output, same end.
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "preload/launch.h"

using namespace cubfc::test;

namespace {

struct Mode {
  const char* name;
  Environment environment;
};

const std::vector<Mode>& modes() {
  static const std::vector<Mode> kModes{
      {"bfc, preallocated", {{"CUBFC_ALLOCATOR", "bfc"}, {"CUBFC_PREALLOCATE", "true"}}},
      {"bfc, grown on demand", {{"CUBFC_ALLOCATOR", "bfc"}, {"CUBFC_PREALLOCATE", "false"}}},
      {"platform", {{"CUBFC_ALLOCATOR", "platform"}}},
      {"bfc, every message", {{"CUBFC_LOG_LEVEL", "trace"}}},
      {"disabled", {{"CUBFC_DISABLE", "1"}}},
  };
  return kModes;
}

struct Program {
  std::vector<std::string> command;
  std::uint64_t contexts;  // that it allocates in
  Environment environment = {};
};

std::vector<Program> with_threads() {
  return {
      {{program("program_threads"), "4", "60"}, 1},
      {{program("program_threads"), "16", "10"}, 1},
  };
}

std::vector<Program> with_one_thread() {
  std::vector<Program> all{
      {{program("program_linked_driver")}, 1},
      {{program("program_dlopened_driver")}, 1},
      {{program("program_static_runtime")}, 1},
      {{program("play_trace"), "--synthetic", "2000", "--seed", "3"}, 1},
  };
  if (!kSanitized) {
    all.push_back({{"python3", CUBFC_TEST_SOURCES "/programs/ctypes_driver.py"}, 1});
  }
  if (std::filesystem::exists(program("program_vector_add"))) {
    all.push_back({{program("program_vector_add")}, 1});
  }
  return all;
}

// Only what a program says and how it ends: what cubfc says goes to stderr.
void compare(const Outcome& bare, const Outcome& preloaded) {
  CHECK(preloaded.out == bare.out);
  CHECK(preloaded.status == bare.status);
}

void compare_in_every_mode(const Program& one) {
  const Outcome bare = run(one.command, one.environment);
  INFO(one.command[0]);
  INFO(bare.err);
  REQUIRE(bare.status == 0);
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    Environment environment = one.environment;
    environment.insert(mode.environment.begin(), mode.environment.end());
    const Outcome preloaded = run_preloaded(one.command, environment);
    INFO(preloaded.err.substr(0, 2000));
    compare(bare, preloaded);
  }
}

// With preallocation.
void check_driver_calls(const Program& one) {
  const Outcome preloaded = run_preloaded(one.command, one.environment);
  INFO(one.command[0]);
  INFO(preloaded.err);
  REQUIRE(preloaded.status == 0);
  // A program that tries to get more than there is reaches the driver once more for each attempt.
  const bool misuses =
      one.command[0].ends_with("vector_add") || one.command[0].ends_with("ctypes_driver.py");
  if (!misuses) {
    CHECK(preloaded.driver_calls.at("cuMemAlloc_v2") <= 5 * one.contexts);
    CHECK(preloaded.driver_calls.at("cuMemCreate") > 40);
    CHECK(preloaded.driver_calls.count("cuMemFree_v2") == 0);
  }
}

}  // namespace

TEST_CASE("each program prints the same and exits the same in every mode", "[one_thread]") {
  for (const Program& one : with_one_thread()) {
    compare_in_every_mode(one);
  }
}

TEST_CASE("each program with threads prints the same and exits the same in every mode") {
  for (const Program& one : with_threads()) {
    compare_in_every_mode(one);
  }
}

TEST_CASE("with preallocation the driver gets few allocations, and nothing is given back") {
  for (const Program& one : with_threads()) {
    check_driver_calls(one);
  }
}

TEST_CASE("with preallocation the driver gets few allocations of a program with one thread, too",
          "[one_thread]") {
  for (const Program& one : with_one_thread()) {
    check_driver_calls(one);
  }
}

// Taken anew to be given back, it costs more than all else at the end of a short program (seen on
// an H200: 0.1 s).
TEST_CASE("at its end a program gives back what is preallocated as it was taken", "[one_thread]") {
  const Outcome ended =
      run_preloaded({program("program_linked_driver")}, {{"STANDIN_MEMORY", "139GiB"}});
  REQUIRE(ended.status == 0);
  CHECK(ended.driver_calls.at("cuMemCreate") > 40);
  CHECK(ended.driver_calls.at("cuMemCreate") < 100);
  CHECK(ended.driver_calls.at("cuMemRelease") == ended.driver_calls.at("cuMemCreate"));
}

TEST_CASE("every misuse gets the driver's own error, whichever way the driver was found",
          "[one_thread]") {
  for (const char* via : {"linked", "dlsym", "getproc"}) {
    const std::vector<std::string> command{program("program_misuse"), std::string("--via=") + via};
    const Outcome bare = run(command);
    REQUIRE(bare.status == 0);
    for (const Mode& mode : modes()) {
      INFO(via << ", " << mode.name);
      compare(bare, run_preloaded(command, mode.environment));
    }
  }
}

TEST_CASE("contexts and devices keep their own memory, also after a reset", "[one_thread]") {
  for (const char* devices : {"1", "2"}) {
    for (const char* via : {"linked", "getproc"}) {
      const std::vector<std::string> command{program("program_contexts"),
                                             std::string("--via=") + via};
      const Environment machine{{"STANDIN_DEVICES", devices}};
      const Outcome bare = run(command, machine);
      REQUIRE(bare.status == 0);
      for (const Mode& mode : modes()) {
        INFO(devices << " devices, " << via << ", " << mode.name);
        Environment environment = machine;
        environment.insert(mode.environment.begin(), mode.environment.end());
        const Outcome preloaded = run_preloaded(command, environment);
        INFO(preloaded.err.substr(0, 2000));
        compare(bare, preloaded);
      }
    }
  }
}

TEST_CASE(
    "a program that runs exit handlers, of either kind, tells what it used and leaves its "
    "recording whole") {
  for (const char* end : {"return", "exit", "quick_exit"}) {
    const std::string recording = scratch(std::string("ends-by-") + end);
    const Outcome ended = run_preloaded(
        {program("program_lifetimes"), end},
        {{"CUBFC_ALLOCATOR", "bfc"}, {"CUBFC_SHOW_STATS", "1"}, {"CUBFC_TRACE", recording}});
    INFO(end << ": " << ended.err.substr(0, 2000));
    CHECK(ended.err.find(" peak ") != std::string::npos);
    CHECK(std::filesystem::file_size(recording) > 0);
  }
}

TEST_CASE("a program ends as without us, however it ends") {
  for (const char* end : {"return", "exit", "quick_exit", "_exit", "abort", "signal", "threads",
                          "atexit", "fork_before", "fork_after", "fork_exec"}) {
    const std::vector<std::string> command{program("program_lifetimes"), end};
    const Outcome bare = run(command);
    for (const Mode& mode : modes()) {
      INFO(end << ", " << mode.name);
      Environment environment = mode.environment;
      environment["CUBFC_SHOW_STATS"] = "1";
      const Outcome preloaded = run_preloaded(command, environment);
      INFO(preloaded.err.substr(0, 2000));
      compare(bare, preloaded);
    }
  }
}

TEST_CASE(
    "no child hangs on what a thread of its parent was doing, and one that is early begins anew") {
  for (const std::string what : {"used", "first", "early"}) {
    if (kSanitized && what != "early") {
      continue;  // a child of several threads waits for a sanitizer's own locks, without cubfc, too
    }
    const std::vector<std::string> command{
        preload_program(what == "first" ? "forking_slowly" : "forking"), what};
    // A child has threads that it did not start, and cannot join.
    const Environment leaks_threads{{"TSAN_OPTIONS", "atexit_sleep_ms=0:report_thread_leaks=0"}};
    const Outcome bare = run(command, leaks_threads);
    INFO(bare.err.substr(0, 2000));
    REQUIRE(bare.status == 0);
    for (const Mode& mode : modes()) {
      INFO(what << ", " << mode.name);
      Environment environment = mode.environment;
      environment.insert(leaks_threads.begin(), leaks_threads.end());
      environment.emplace("CUBFC_MEM_LIMIT", "1GiB");  // then each call takes more of our locks
      const Outcome preloaded = run_preloaded(command, environment);
      INFO(preloaded.err.substr(0, 2000));
      compare(bare, preloaded);
    }
  }
}

TEST_CASE("a tool calls back from inside the driver's calls") {
  const std::vector<std::string> command{preload_program("callbacks")};
  const Outcome bare = run(command);
  INFO(bare.out << bare.err);
  REQUIRE(bare.status == 0);
  for (const char* allocator : {"bfc", "vmm", "cuda_async", "platform"}) {
    for (const char* waits : {"sync", "deferred"}) {
      for (const char* ordered : {"driver", "arena"}) {
        if (kSanitized && std::string(ordered) == "arena") {
          continue;  // slow
        }
        INFO(allocator << ", " << waits << ", " << ordered);
        const Outcome preloaded = run_preloaded(command, {{"CUBFC_ALLOCATOR", allocator},
                                                          {"CUBFC_FREE", waits},
                                                          {"CUBFC_STREAM_ORDERED", ordered}});
        INFO(preloaded.err.substr(0, 2000));
        compare(bare, preloaded);
      }
    }
  }
}

TEST_CASE("a message of ours, a wait, a look-up change nothing for the program") {
  std::vector<const char*> ways{"tail", "pipe", "cancel", "dlerror", "sandbox"};
  if (!kSanitized) {  // TSan has a thread of its own
    ways.push_back("last");
    ways.push_back("last_without_proc");
    ways.push_back("late_without_proc");
  }
  for (const char* way : ways) {
    const std::vector<std::string> command{preload_program("manners"), way};
    const Outcome bare = run(command);
    INFO(way << ": " << bare.out << bare.err);
    REQUIRE(bare.status == 0);
    for (const Mode& mode : modes()) {
      INFO(mode.name);
      const Outcome preloaded = run_preloaded(command, mode.environment);
      INFO(preloaded.err.substr(0, 2000));
      compare(bare, preloaded);
    }
  }
}

TEST_CASE("a limit on the size of files ends no program", "[one_thread]") {
  // The software driver's own files for physical memory are 2 MiB long then.
  const std::vector<std::string> command{preload_program("manners"), "small"};
  const Outcome bare = run(command, {{"STANDIN_MEMORY", "64MiB"}});
  CHECK(bare.out == "limit 0\nallocate 0\n");
  compare(bare, run_preloaded(command, {{"STANDIN_MEMORY", "64MiB"}}));
}

TEST_CASE("a thread is cancelled in each function as without cubfc") {
  if (kSanitized) {
    WARN("a sanitizer does not stand a thread that is cancelled anywhere: not tried");
    return;
  }
  std::ifstream map(CUBFC_TEST_EXPORTS_MAP);
  std::vector<std::string> command{preload_program("manners"), "cancel_each"};
  void* const driver = dlopen(CUBFC_TEST_STANDIN "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(driver != nullptr);
  for (std::string line; std::getline(map, line);) {
    const std::size_t start = line.find("cu");
    if (start == std::string::npos || line.compare(start, 4, "cuda") == 0 ||
        line.compare(start, 5, "cubfc") == 0 ||
        line.find("cuGetProcAddress") != std::string::npos) {
      continue;  // the runtime is a library of its own; cuGetProcAddress has no name to look up
    }
    const std::string name = line.substr(start, line.find(';') - start);
    if (dlsym(driver, name.c_str()) == nullptr) {
      continue;
    }
    command.push_back(name);
  }
  REQUIRE(command.size() > 50);
  const Outcome bare = run(command);
  INFO(bare.out << bare.err);
  REQUIRE(bare.status == 0);
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const Outcome preloaded = run_preloaded(command, mode.environment);
    INFO(preloaded.err.substr(0, 2000));
    compare(bare, preloaded);
  }
}

TEST_CASE("a thread is cancelled in its first calls as without cubfc") {
  if (kSanitized) {
    WARN("a sanitizer does not stand a thread that is cancelled anywhere: not tried");
    return;
  }
  for (const char* function : {"cuCtxGetDevice", "cuThreadExchangeStreamCaptureMode"}) {
    const std::vector<std::string> command{preload_program("manners"), "cancel_first", function};
    const Outcome bare = run(command);
    CHECK(bare.out == "cancelled 1\ncancelled 1\n");
    for (const Mode& mode : modes()) {
      INFO(function << ", " << mode.name);
      compare(bare, run_preloaded(command, mode.environment));
    }
  }
}

TEST_CASE("where the host has no memory for cubfc, a call fails and the program goes on") {
  if (kSanitized) {
    WARN("a sanitizer has a malloc of its own: not tried");
    return;
  }
  const std::vector<std::string> command{preload_program("no_host_memory")};
  const Outcome bare = run(command);
  REQUIRE(bare.status == 0);
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    compare(bare, run_preloaded(command, mode.environment));
  }
}

TEST_CASE("every recorded trace plays to its end with every byte verified", "[one_thread]") {
  const char* folder = std::getenv("CUBFC_TRACES");
  if (folder == nullptr) {
    WARN("CUBFC_TRACES is not set: only the synthetic trace is played");
    return;
  }
  int played = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".csv") {
      continue;
    }
    ++played;
    // The largest has a peak of 47 GB. Every size is scaled alike, which keeps their pattern.
    for (const char* preallocate : {"true", "false"}) {
      if (kSanitized && std::string(preallocate) == "true") {
        continue;  // slow, and growing does all that a preallocated arena does
      }
      INFO(entry.path().filename().string() << ", preallocate " << preallocate);
      const Outcome outcome = run_preloaded(
          {program("play_trace"), entry.path().string(), "--scale", kSanitized ? "1024" : "128"},
          {{"CUBFC_PREALLOCATE", preallocate}});
      INFO(outcome.out << outcome.err);
      CHECK(outcome.status == 0);
      CHECK(outcome.out.find(" 0 mismatches, 0 failures") != std::string::npos);
    }
  }
  CHECK(played > 0);
}
