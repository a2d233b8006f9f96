// Processes of one user on one device: what one has preallocated without being asked to, another
// gets by asking, and what cuMemGetInfo says of it is true.
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "catch.h"
#include "preload/figures.h"
#include "preload/launch.h"

using namespace cubfc::test;

namespace {

std::vector<std::string> leave(const std::string& state, const char* how, int seed = 0) {
  return {program("program_free_memory"), state, how, std::to_string(seed)};
}

// A device that several processes share, nobody else.
Environment device(const char* bytes, Environment environment = {}) {
  static int number = 0;
  environment["STANDIN_SHARED"] = scratch("device" + std::to_string(number++));
  environment["STANDIN_MEMORY"] = bytes;
  environment["CUBFC_LOG_LEVEL"] = "off";
  return environment;
}

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) {
    environment[name] = value;
  }
  return environment;
}

Environment under_cubfc(Environment environment) {
  environment["LD_PRELOAD"] = preload();
  return environment;
}

// Has reached that state, and stays.
Running hold(const std::string& state, const Environment& environment, int seed = 0) {
  Running running(leave(state, "hold", seed), environment);
  running.wait_for("\n");
  return running;
}

const std::vector<Environment> kSoft = {
    {}, {{"CUBFC_FREE", "deferred"}}, {{"CUBFC_ALLOCATOR", "vmm"}}, {{"CUBFC_MEM_LIMIT", "20GiB"}}};

std::string named(const Environment& mode) {
  return mode.empty() ? "default" : mode.begin()->first + "=" + mode.begin()->second;
}

}  // namespace

TEST_CASE("four processes get what four get without cubfc") {
  for (const Environment& mode : kSoft) {
    INFO(named(mode));
    const Environment environment = under_cubfc(device("24GiB", mode));
    std::vector<Running> running;
    for (int i = 0; i < 4; ++i) {
      running.push_back(hold("fill:4000", environment));
    }
    for (Running& each : running) {
      kill(each.pid(), SIGTERM);
      CHECK(each.finish().out.starts_with("4000 "));
    }
  }
}

TEST_CASE("many processes that start together get what they get without cubfc") {
  const int kProcesses = kSanitized ? 8 : 64;
  const Environment environment = under_cubfc(device("8GiB"));
  std::vector<Running> running;
  for (int i = 0; i < kProcesses; ++i) {
    running.emplace_back(leave("fill:" + std::to_string(7600 / kProcesses), "hold"), environment);
  }
  for (Running& each : running) {
    each.wait_for("\n");
    kill(each.pid(), SIGTERM);
    CHECK(each.finish().out.starts_with(std::to_string(7600 / kProcesses) + " "));
  }
}

TEST_CASE("processes that begin while others end get what they get without cubfc") {
  const int kProcesses = kSanitized ? 8 : 48;
  for (const Environment& mode : kSoft) {
    INFO(named(mode));
    Environment environment = under_cubfc(device("8GiB", mode));
    environment["CUBFC_LOG_LEVEL"] = "warn";
    const std::vector<std::vector<std::string>> commands(kProcesses, leave("empty", "ask:100"));
    for (const Outcome& outcome : run_together(commands, environment)) {
      INFO(outcome.out << outcome.err);
      CHECK(outcome.status == 0);
      CHECK(outcome.err.empty());
      CHECK(outcome.out.ends_with(" 100\n"));
    }
  }
}

TEST_CASE("beside others that come and go, what the limit refuses is refused at once") {
  const Environment environment = under_cubfc(device("8GiB"));
  std::vector<Running> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back(leave("empty", "churn", i), environment);
  }
  const Environment limited = with(environment, {{"CUBFC_MEM_LIMIT", "500MiB"}});
  for (int i = 0; i < 5; ++i) {
    const Outcome outcome = run(leave("fill:400", "ask:200"), limited);
    const Figures found = figures_of(outcome);
    CHECK(found.live == 400);
    CHECK(found.got == 0);
    // Who waits for others looks again each millisecond, for seconds; who sees them change while it
    // looks, once more.
    CHECK(outcome.driver_calls.at("cuMemGetInfo_v2") < 200);
  }
}

TEST_CASE("while an exit lasts, what the process does not use is others'") {
  const Environment environment = under_cubfc(device("8GiB"));
  const Running ending(leave("fill:1000", "linger"), environment);
  ending.wait_for("lingers\n");
  CHECK(figures_of(run(leave("empty", "ask:7000"), environment)).got == 7000);
}

TEST_CASE("whatever another process has in use, what is said to be free beside it can be had") {
  for (const Environment& mode : kSoft) {
    for (int seed = 1; seed <= (kSanitized ? 1 : 4); ++seed) {
      for (const char* state : {"empty", "small"}) {
        for (const char* how : {"piece", "sum", "create", "async"}) {
          INFO(named(mode) << " " << seed << " " << state << " " << how);
          const Environment environment = under_cubfc(device("8GiB", mode));
          const Running other = hold("random", environment, seed);
          const Figures found = figures_of(run(leave(state, how), environment));
          CHECK(found.free > 0);
          CHECK(found.got + 1 >= 0.98 * found.free);  // in whole MiB
        }
      }
    }
  }
}

TEST_CASE("beside a process with one small block another gets the rest of the device") {
  for (const Environment& mode : kSoft) {
    for (const char* how : {"piece", "sum", "create", "async"}) {
      INFO(named(mode) << " " << how);
      const Environment bare = device("16GiB");
      const Running bare_other = hold("small", bare);
      const Figures without = figures_of(run(leave("empty", how), bare));
      const Environment environment = under_cubfc(device("16GiB", mode));
      const Running other = hold("small", environment);
      const Figures found = figures_of(run(leave("empty", how), environment));
      CHECK(found.free >= 0.98 * without.free);
      CHECK(found.free <= 1.01 * without.free);
      CHECK(found.got >= 0.98 * without.got);
    }
  }
}

TEST_CASE("what was asked for is firm, and towards strangers all of it is") {
  for (const Environment& mode : std::vector<Environment>{{{"CUBFC_PREALLOCATE", "true"}},
                                                          {{"CUBFC_PREALLOCATE", "whole"}},
                                                          {{"CUBFC_MEM_FRACTION", "0.75"}},
                                                          {{"XLA_CLIENT_MEM_FRACTION", "0.75"}}}) {
    INFO(named(mode));
    const Environment environment = device("16GiB");
    const Running other = hold("small", under_cubfc(with(environment, mode)));
    const Figures found = figures_of(run(leave("empty", "sum"), under_cubfc(environment)));
    CHECK(found.free <= 0.26 * 16384);
    CHECK(found.got <= 0.26 * 16384);
  }
  const Environment environment = device("16GiB");
  const Running other = hold("small", under_cubfc(environment));
  const Figures stranger = figures_of(run(leave("empty", "sum"), environment));
  CHECK(stranger.free <= 0.26 * 16384);
  CHECK(stranger.free >= 0.24 * 16384);
}

TEST_CASE("who has none of its own to give gets it all the same") {
  for (const Environment& mode : std::vector<Environment>{{{"CUBFC_PREALLOCATE", "false"}},
                                                          {{"CUBFC_ALLOCATOR", "platform"}},
                                                          {{"CUBFC_ALLOCATOR", "cuda_async"}},
                                                          {{"CUBFC_MEM_FRACTION", "0.9"}}}) {
    INFO(named(mode));
    const Environment environment = device("16GiB");
    const Running other = hold("small", under_cubfc(environment));
    const Figures found =
        figures_of(run(leave("empty", "sum"), under_cubfc(with(environment, mode))));
    CHECK(found.free >= 0.89 * 16384);
    CHECK(found.got >= 0.98 * found.free);
  }
}

TEST_CASE("what another process has freed can be had, however it had come by it") {
  for (const Environment& mode : std::vector<Environment>{{},
                                                          {{"CUBFC_FREE", "deferred"}},
                                                          {{"CUBFC_PREALLOCATE", "false"}},
                                                          {{"CUBFC_ALLOCATOR", "vmm"}},
                                                          {{"CUBFC_ALLOCATOR", "cuda_async"}},
                                                          {{"CUBFC_ALLOCATOR", "platform"}}}) {
    for (const char* how : {"piece", "create"}) {
      INFO(named(mode) << " " << how);
      const Environment environment = device("16GiB");
      const Running other = hold("freed:15000", under_cubfc(with(environment, mode)));
      const Figures found = figures_of(run(leave("empty", how), under_cubfc(environment)));
      CHECK(found.free >= 0.98 * 16384);
      CHECK(found.got >= 0.97 * 16384);
    }
  }
}

TEST_CASE("an error that has nothing to do with memory costs others little") {
  for (const auto& [state, function] :
       {std::pair{"captured:1", "cuStreamCreate"}, {"small", "cuDevicePrimaryCtxRetain"}}) {
    INFO(function);
    const Environment environment = device("64GiB");
    const Running other = hold("small", under_cubfc(environment));
    const Outcome failed =
        run(leave(state, "sum"),
            under_cubfc(with(environment, {{"STANDIN_FAIL", std::string(function) + "=2+*"}})));
    CHECK(failed.status != 0);
    const Figures stranger = figures_of(run(leave("empty", "piece"), environment));
    CHECK(stranger.free <= 0.25 * 65536 + 2 * 1024);
  }
}

TEST_CASE("beside a process that is stopped a program goes on with what there is") {
  const Environment environment = under_cubfc(device("16GiB"));
  const Running other = hold("small", environment);
  kill(other.pid(), SIGSTOP);
  const Figures found = figures_of(run(leave("empty", "sum"), environment));
  CHECK(found.free <= 0.26 * 16384);
  CHECK(found.got >= 0.98 * found.free);
  kill(other.pid(), SIGCONT);
  CHECK(figures_of(run(leave("empty", "sum"), environment)).got >= 0.9 * 16384);
}

// A context takes memory of the device (half a GiB on an H200), and who begins finds that others
// have all of it in reserve, or are just taking it.
TEST_CASE("as many processes as the device has room for begin at the same time") {
  constexpr int kProcesses = 25;
  for (const Environment& mode : kSoft) {
    if (mode.contains("CUBFC_MEM_LIMIT")) {
      continue;
    }
    for (int round = 0; round < (kSanitized ? 1 : 5); ++round) {
      INFO(named(mode) << " " << round);
      const Environment environment = under_cubfc(
          device("24GiB", with(mode, {{"STANDIN_CONTEXT", "527MiB"}, {"STANDIN_DATA", "none"}})));
      std::vector<Running> running;
      running.reserve(kProcesses);
      for (int i = 0; i < kProcesses; ++i) {
        running.emplace_back(leave("small", "hold", i), environment);
      }
      for (const Running& each : running) {
        REQUIRE_NOTHROW(each.wait_for("\n"));
      }
    }
  }
}

TEST_CASE("what the driver lacks for itself comes from others, however much is free already") {
  const Environment environment =
      under_cubfc(device("16GiB", {{"STANDIN_CONTEXT", "1900MiB"}, {"STANDIN_DATA", "none"}}));
  const Running other = hold("small", environment);
  // Some 1.7 GiB are left when this one has its first context.
  const Outcome second =
      run(leave("second", "ask:1"), with(environment, {{"CUBFC_PREALLOCATE", "false"}}));
  CHECK(figures_of(second).got == 1);
}

TEST_CASE("killed at any moment, processes leave nothing that others miss") {
  std::mt19937 random(1);
  const Environment environment = under_cubfc(device("8GiB"));
  for (int round = 0; round < (kSanitized ? 3 : 30); ++round) {
    {
      std::vector<Running> running;
      for (int i = 0; i < 4; ++i) {
        running.emplace_back(leave("random", "sum", round), environment);
      }
      usleep(static_cast<useconds_t>(random() % 60'000));
    }
    const Figures found = figures_of(run(leave("empty", "total"), environment));
    REQUIRE(found.got == 8192);
  }
}
