// Processes of one group on one device, on the software driver: together they get what the group's
// limit says, what one does not use another gets, and what goes wrong is said and gives nothing.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "catch.h"
#include "preload/figures.h"
#include "preload/launch.h"
#include "shim/meet/group.h"

using namespace cubfc::test;

namespace {

std::vector<std::string> leave(const std::string& state, const std::string& how) {
  return {program("program_free_memory"), state, how, "1"};
}

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) {
    environment[name] = value;
  }
  return environment;
}

// A device of 16 GiB that several processes share, nobody else.
Environment device(const Environment& more = {}) {
  static int number = 0;
  return with({{"STANDIN_SHARED", scratch("device" + std::to_string(number++))},
               {"STANDIN_MEMORY", "16GiB"},
               {"CUBFC_LOG_LEVEL", "warn"}},
              more);
}

// A group of its own for each case: their devices have the same UUID.
Environment group(const std::string& name, Environment environment, const std::string& limit) {
  environment["LD_PRELOAD"] = preload();
  environment["CUBFC_GROUP"] = name;
  environment["CUBFC_GROUP_LIMIT"] = limit;
  return environment;
}
Environment new_group(const Environment& environment, const std::string& limit) {
  static int number = 0;
  return group("g" + std::to_string(number++), environment, limit);
}

// Has reached that state, and stays.
Running hold(const std::string& state, const Environment& environment,
             const std::string& how = "hold") {
  Running running(leave(state, how), environment);
  running.wait_for("\n");
  return running;
}

const std::vector<Environment> kModes = {{},
                                         {{"CUBFC_FREE", "deferred"}},
                                         {{"CUBFC_ALLOCATOR", "vmm"}},
                                         {{"CUBFC_ALLOCATOR", "cuda_async"}},
                                         {{"CUBFC_ALLOCATOR", "platform"}}};

std::string named(const Environment& mode) {
  return mode.empty() ? "default" : mode.begin()->first + "=" + mode.begin()->second;
}

// Where the software driver's device 0 has its part of the group.
std::string file_of(const std::string& group) {
  for (const auto& entry : std::filesystem::directory_iterator(runtime_folder() + "/cubfc")) {
    if (entry.path().filename().string().starts_with("group-" + group + "-")) {
      return entry.path();
    }
  }
  return "";
}

// As one more member, which claims nothing: sees what is claimed on the software driver's device 0.
std::unique_ptr<cubfc::Group> watch(const std::string& group, std::uint64_t limit) {
  const std::string name = std::filesystem::path(file_of(group)).filename();
  const std::string digits = name.substr(name.rfind('-') + 1);
  cubfc::DeviceId device{};
  REQUIRE(digits.size() == 2 * device.size());
  for (std::size_t i = 0; i < device.size(); ++i) {
    device[i] = static_cast<char>(std::stoi(digits.substr(2 * i, 2), nullptr, 16));
  }
  setenv("XDG_RUNTIME_DIR", runtime_folder().c_str(), 1);
  std::string why_not;
  auto joined = cubfc::Group::join(group, device, limit, why_not);
  INFO(why_not);
  REQUIRE(joined != nullptr);
  return joined;
}

int seconds_of_test() {
  const char* const text = std::getenv("CUBFC_TEST_SECONDS");
  return text == nullptr ? 2 : std::atoi(text);
}

}  // namespace

TEST_CASE("what the processes of a group get together is what its limit says") {
  for (const Environment& mode : kModes) {
    for (const char* how : {"sum", "create", "async"}) {
      INFO(named(mode) << " " << how);
      const Environment environment = new_group(device(mode), "4GiB");
      const Running one = hold("fill:1000", environment);
      const Running two = hold("fill:1000", environment);
      const Figures found = figures_of(run(leave("fill:500", how), environment));
      CHECK(found.live == 500);
      CHECK(found.free <= 4096 - 2500);
      CHECK(found.free >= 0.95 * (4096 - 2500));
      CHECK(found.got <= 4096 - 2500);
      CHECK(found.got >= 0.95 * (4096 - 2500));
    }
  }
}

TEST_CASE("the program sees a device of the group's size") {
  const Environment environment = new_group(device(), "4GiB");
  CHECK(figures_of(run(leave("empty", "total"), environment)).got == 4096);
  const Environment smaller = with(environment, {{"CUBFC_MEM_LIMIT", "1GiB"}});
  CHECK(figures_of(run(leave("empty", "total"), smaller)).got == 1024);
}

TEST_CASE("what a member has freed, another gets by asking") {
  for (const Environment& mode : kModes) {
    for (const char* how : {"piece", "sum", "create", "ask:3900"}) {
      INFO(named(mode) << " " << how);
      const Environment environment = new_group(device(mode), "4GiB");
      const Running other = hold("freed:3900", environment);
      const Figures found = figures_of(run(leave("empty", how), environment));
      CHECK(found.free >= 0.98 * 4096);
      CHECK(found.got >= 3900);
    }
  }
}

TEST_CASE("members with little in use leave nearly all of the limit to others") {
  for (const Environment& mode : kModes) {
    INFO(named(mode));
    const Environment environment = new_group(device(mode), "4GiB");
    std::vector<Running> others;
    for (int i = 0; i < 4; ++i) {
      others.push_back(hold("holes:64", environment));
    }
    const Figures found = figures_of(run(leave("empty", "sum"), environment));
    CHECK(found.free >= 0.85 * 4096);
    CHECK(found.got >= 0.95 * found.free);
  }
}

TEST_CASE("a request over the group's limit is refused, and the report says whose limit it is") {
  const std::string report = scratch("group-report.json");
  const Environment environment = with(new_group(device(), "4GiB"), {{"CUBFC_OOM_REPORT", report}});
  const Running other = hold("fill:3000", environment);
  const Outcome outcome = run(leave("fill:200", "ask:2000"), environment);
  INFO(outcome.out << outcome.err);
  CHECK(figures_of(outcome).got == 0);
  CHECK(outcome.err.find("  group     " + environment.at("CUBFC_GROUP") + ": 3.1") !=
        std::string::npos);
  CHECK(outcome.err.find("GiB of 4.00 GiB taken by 2 processes") != std::string::npos);
  CHECK(outcome.err.find("over the limit (3.1") != std::string::npos);
  CHECK(outcome.err.find("taken by the processes of the group)") != std::string::npos);
  CHECK(outcome.err.find("CUBFC_GROUP_LIMIT") != std::string::npos);
  std::ifstream file(report);
  const nlohmann::json said = nlohmann::json::parse(file);
  CHECK(said.at("group").at("name") == environment.at("CUBFC_GROUP"));
  CHECK(said.at("group").at("limit_bytes") == 4ULL << 30);
  CHECK(said.at("group").at("processes") == 2);
}

TEST_CASE("what a killed member had is the group's again") {
  for (const Environment& mode : kModes) {
    INFO(named(mode));
    const Environment environment = new_group(device(mode), "4GiB");
    Running other = hold("fill:3900", environment);
    CHECK(figures_of(run(leave("empty", "ask:1000"), environment)).got == 0);
    kill(other.pid(), SIGKILL);
    other.finish();
    const Figures found = figures_of(run(leave("empty", "ask:3900"), environment));
    CHECK(found.free >= 0.98 * 4096);
    CHECK(found.got == 3900);
  }
}

TEST_CASE("a forked child does not hold what its parent had") {
  const Environment environment = new_group(device(), "4GiB");
  const Running parent = hold("fill:3900", environment, "fork");
  kill(parent.pid(), SIGKILL);
  CHECK(figures_of(run(leave("empty", "ask:3900"), environment)).got == 3900);
}

TEST_CASE("while the driver takes back what a killed member had, the next waits for it") {
  const Environment device_of_all = device();
  const Environment environment = new_group(device_of_all, "8GiB");
  // That the device is full for a moment after that is played by somebody outside the group.
  Running full = hold("fill:12000", device_of_all);
  Running member = hold("fill:1000", environment);
  kill(member.pid(), SIGKILL);
  member.finish();
  std::thread driver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    kill(full.pid(), SIGKILL);
    full.finish();
  });
  CHECK(figures_of(run(leave("empty", "ask:8000"), environment)).got == 8000);
  driver.join();
  // The same where the driver takes its time itself.
  const Environment slow = new_group(device({{"STANDIN_TEARDOWN", "500ms"}}), "16GiB");
  Running large = hold("fill:15000", slow);
  kill(large.pid(), SIGKILL);
  large.finish();
  CHECK(figures_of(run(leave("empty", "ask:15000"), slow)).got == 15000);
  // Without such a death nobody waits.
  const Running full_again = hold("fill:12000", device_of_all);
  const Environment another = new_group(device_of_all, "8GiB");
  CHECK(figures_of(run(leave("empty", "ask:8000"), another)).got == 0);
}

TEST_CASE("groups are apart, by name and by device") {
  const Environment two = device({{"STANDIN_DEVICES", "2"}});
  const Environment environment = new_group(two, "4GiB");
  const Running other = hold("fill:3900", environment);
  CHECK(figures_of(run(leave("empty", "ask:3900"), new_group(two, "4GiB"))).got == 3900);
  CHECK(figures_of(
            run(leave("empty", "ask:3900"), with(environment, {{"CUDA_VISIBLE_DEVICES", "1"}})))
            .got == 3900);
  CHECK(figures_of(
            run(leave("empty", "ask:3900"), with(environment, {{"CUDA_VISIBLE_DEVICES", "0"}})))
            .got == 0);
}

TEST_CASE("members that name different limits are held to their own, and told") {
  const Environment environment = new_group(device(), "4GiB");
  const Running other = hold("fill:1000", environment);
  const Outcome outcome =
      run(leave("empty", "sum"), with(environment, {{"CUBFC_GROUP_LIMIT", "2GiB"}}));
  const Figures found = figures_of(outcome);
  CHECK(found.got <= 2048 - 1000);
  CHECK(found.got >= 0.9 * (2048 - 1000));
  CHECK(outcome.err.find("has a limit of 4.00 GiB, and this one 2.00 GiB") != std::string::npos);
}

TEST_CASE("a file that is no group's is named, gives nothing, and is left as it was") {
  const Environment environment = new_group(device(), "4GiB");
  const std::string name = environment.at("CUBFC_GROUP");
  CHECK(figures_of(run(leave("empty", "ask:100"), environment)).got == 100);
  const std::string path = file_of(name);
  REQUIRE(!path.empty());
  const auto good_bytes = std::filesystem::file_size(path);
  std::string good(good_bytes, '\0');
  std::ifstream(path).read(good.data(), static_cast<std::streamsize>(good_bytes));

  struct Bad {
    const char* what;
    std::string content;
    std::filesystem::perms permissions = std::filesystem::perms(0600);
  };
  std::string other_version = good;
  ++other_version[7];
  std::string ones = good;
  ones.assign(ones.size(), '\xff');
  std::string text = "this is a note\n";
  const std::vector<Bad> bad = {{"ones", ones},
                                {"other version", other_version},
                                {"truncated", good.substr(0, good.size() / 2)},
                                {"text", text},
                                {"for all to write", good, std::filesystem::perms(0666)}};
  for (const Bad& each : bad) {
    INFO(each.what);
    std::filesystem::remove(path);
    std::ofstream(path) << each.content;
    std::filesystem::permissions(path, each.permissions);
    // Somebody has it: one of another version that is left over would be replaced.
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(flock(file, LOCK_SH) == 0);
    const Outcome outcome = run(leave("empty", "ask:100"), environment);
    INFO(outcome.out << outcome.err);
    CHECK(figures_of(outcome).got == 0);
    CHECK(outcome.err.find("group " + name + " cannot be joined, so no device memory is given: " +
                           path) != std::string::npos);
    std::string after(each.content.size(), '\0');
    std::ifstream(path).read(after.data(), static_cast<std::streamsize>(after.size()));
    CHECK((after == each.content));
    CHECK(std::filesystem::file_size(path) == each.content.size());
    close(file);
  }
  for (const char* kind : {"folder", "link", "pipe"}) {
    INFO(kind);
    std::filesystem::remove(path);
    if (std::string(kind) == "folder") {
      std::filesystem::create_directory(path);
    } else if (std::string(kind) == "link") {
      std::filesystem::create_symlink(scratch("elsewhere"), path);
    } else {
      REQUIRE(mkfifo(path.c_str(), 0600) == 0);
    }
    const Outcome outcome = run(leave("empty", "ask:100"), environment);
    INFO(outcome.out << outcome.err);
    CHECK(figures_of(outcome).got == 0);
    CHECK(outcome.err.find(path) != std::string::npos);
  }
  std::filesystem::remove(path);
  CHECK(figures_of(run(leave("empty", "ask:100"), environment)).got == 100);
}

TEST_CASE("a name without a limit, or a limit without a name, gives nothing and says why") {
  for (const char* left_out : {"CUBFC_GROUP", "CUBFC_GROUP_LIMIT"}) {
    Environment environment = new_group(device(), "4GiB");
    environment.erase(left_out);
    const Outcome outcome = run(leave("empty", "ask:100"), environment);
    INFO(outcome.out << outcome.err);
    CHECK(figures_of(outcome).got == 0);
    CHECK(outcome.err.find(left_out) != std::string::npos);
  }
}

TEST_CASE("many members that start together get what the limit has for them") {
  const int kProcesses = kSanitized ? 8 : 64;
  const Environment environment = new_group(device(), "8GiB");
  const std::string each_one = std::to_string(7600 / kProcesses);
  std::vector<Running> running;
  running.reserve(kProcesses);
  for (int i = 0; i < kProcesses; ++i) {
    running.emplace_back(leave("fill:" + each_one, "hold"), environment);
  }
  for (Running& each : running) {
    each.wait_for("\n");
  }
  CHECK(figures_of(run(leave("empty", "ask:1000"), environment)).got == 0);
  for (Running& each : running) {
    kill(each.pid(), SIGTERM);
    CHECK(each.finish().out.starts_with(each_one + " "));
  }
  CHECK(figures_of(run(leave("empty", "ask:8000"), environment)).got == 8000);
}

TEST_CASE("killed at any moment, members leave nothing that the group misses") {
  for (const Environment& mode : kModes) {
    INFO(named(mode));
    const Environment environment = new_group(device(mode), "8GiB");
    unsigned random = 1;
    for (int round = 0; round < (kSanitized ? 2 : 10); ++round) {
      {
        std::vector<Running> running;
        for (int i = 0; i < 4; ++i) {
          running.emplace_back(leave("random", "sum"), environment);
        }
        random = random * 1103515245 + 12345;
        usleep(random / 65536 % 60'000);
      }
      const Outcome outcome = run(leave("empty", "ask:8000"), environment);
      INFO("round " << round << ": " << outcome.out << outcome.err);
      REQUIRE(outcome.status == 0);
      REQUIRE(figures_of(outcome).got == 8000);
    }
  }
}

// Each member's whole path, from the program's call to the driver's. One that is killed may have a
// claim for which the driver was not asked yet, or the other way round.
TEST_CASE("64 programs that allocate at random and are killed never claim more than the limit") {
  const std::size_t kPrograms = kSanitized ? 12 : 64;
  constexpr std::uint64_t kLimit = 4ULL << 30;
  for (const Environment& mode : kModes) {
    INFO(named(mode));
    const Environment environment =
        with(new_group(device(mode), "4GiB"), {{"CUBFC_LOG_LEVEL", "off"}});
    CHECK(figures_of(run(leave("empty", "ask:4000"), environment)).got == 4000);
    const auto watcher = watch(environment.at("CUBFC_GROUP"), kLimit);
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> most{0};
    std::atomic<std::uint64_t> looks{0};
    std::thread watching([&] {
      for (; !stop; ++looks) {
        most = std::max(most.load(), watcher->used());
      }
    });
    std::mt19937 random(11);
    int killed = 0;
    {
      std::vector<std::unique_ptr<Running>> members(kPrograms);
      const auto start = [&](std::unique_ptr<Running>& member) {
        member = std::make_unique<Running>(
            std::vector<std::string>{program("program_free_memory"), "empty", "churn",
                                     std::to_string(random() % 1'000'000)},
            environment);
      };
      // It has not ended by itself.
      const auto end = [](const std::unique_ptr<Running>& member) {
        kill(member->pid(), SIGKILL);
        const Outcome outcome = member->finish();
        INFO(outcome.out << outcome.err);
        CHECK(outcome.status == 128 + SIGKILL);
      };
      std::for_each(members.begin(), members.end(), start);
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds_of_test());
      for (; std::chrono::steady_clock::now() < until; ++killed) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        std::unique_ptr<Running>& victim = members[random() % kPrograms];
        end(victim);
        start(victim);
      }
      std::for_each(members.begin(), members.end(), end);
    }
    stop = true;
    watching.join();
    std::uint64_t changes = 0;
    std::uint64_t retries = 0;
    std::uint64_t most_retries = 0;
    for (std::size_t i = 0; i < cubfc::GroupTable::kMembers; ++i) {
      const auto contention = watcher->table().contention_of(i);
      changes += contention.changes;
      retries += contention.retries;
      most_retries = std::max(most_retries, contention.most_retries);
    }
    CHECK(most <= kLimit);
    CHECK(most > kLimit / 2);
    CHECK(changes > 100);
    CHECK(most_retries < 1000);
    CHECK(watcher->take(kLimit));
    watcher->give(kLimit);
    WARN(named(mode) << ": " << killed << " killed, " << changes << " changes, " << retries
                     << " retries, " << most_retries << " of one, " << looks << " looks, at most "
                     << most.load() * 100 / kLimit << "% claimed");
    CHECK(figures_of(run(leave("empty", "ask:4000"), environment)).got == 4000);
  }
}
