// What each promise sees is the same bare and under the library in each of its modes, but for the
// known differences.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <regex>
#include <sstream>
#include <utility>

#include "catch.h"
#include "preload/launch.h"

using namespace cubfc::test;

namespace {

const std::string kConformance = in_build(CUBFC_TEST_CONFORMANCE);

struct Mode {
  std::string name;
  Environment environment;
};

// A difference from the bare driver that is known. Where it is not seen, the entry is wrong.
struct KnownDifference {
  const char* promise;
  const char* modes;  // a regular expression that is found in their names
  const char* reason;
};

const KnownDifference kKnownDifferences[] = {
    {"a_capture_begins_while_a_free_waits", "driver-12.0",
     "without events for a whole context a free waits in a call, which each capture lets begin "
     "first"},
    {"a_capture_forbids_allocation_where_its_mode_says_so", "arena|dedicated|pool",
     "more is allowed: the arena serves it without the driver, and the capture lives "
     "(starting.md)"},
    {"a_dma_buffer_covers_what_is_the_blocks", "pool",
     "the driver has it for whole blocks of a pool"},
    {"a_free_returns_when_the_submitted_work_is_done", "deferred",
     "what CUBFC_FREE=deferred is for (README.md)"},
    {"a_handle_for_other_processes_is_the_blocks", "mapped|pool",
     "mapped memory and a pool's have none"},
    {"an_allocation_does_not_wait", "without-mapping-and-pools, arena, sync, preallocated",
     "what an arena does not use goes back by cuMemFree there, which waits for the device's work"},
    {"attributes_describe_the_block", "mapped|pool", "to the driver, such memory is no context's"},
    {"attributes_that_are_numbers_are_the_drivers", "mapped|pool",
     "the one that says whether there is such a handle"},
    {"sync_memops_is_of_one_allocation", "arena|dedicated",
     "the driver has it for a region, not a block"},
    {"sync_memops_is_set_and_read", "mapped",
     "the driver has it for no mapped memory (starting.md)"},
    {"what_waits_for_a_destroyed_stream_keeps_nothing_else",
     "without-mapping-and-pools, arena, sync, preallocated", "as an_allocation_does_not_wait"},
};

bool is_known(const std::string& promise, const std::string& mode) {
  return std::ranges::any_of(kKnownDifferences, [&](const KnownDifference& known) {
    return promise == known.promise && std::regex_search(mode, std::regex(known.modes));
  });
}

// Larger than what any promise needs beside what is preallocated.
const Environment kLimit{{"CUBFC_MEM_LIMIT", "900MiB"}};

Environment operator+(Environment one, const Environment& other) {
  one.insert(other.begin(), other.end());
  return one;
}

std::vector<Mode> arena_modes() {
  std::vector<Mode> modes;
  for (const char* free : {"sync", "deferred"}) {
    const Environment grown{{"CUBFC_FREE", free}, {"CUBFC_PREALLOCATE", "false"}};
    const Environment preallocated{{"CUBFC_FREE", free}, {"CUBFC_PREALLOCATE", "true"}};
    const std::string name = std::string("arena, ") + free;
    if (!kSanitized) {  // slow, and growing does all that a preallocated arena does
      modes.push_back({name + ", preallocated", preallocated});
      modes.push_back({name + ", preallocated, limited", preallocated + kLimit});
      modes.push_back({name + ", grown", grown});
    }
    modes.push_back({name + ", grown, limited", grown + kLimit});
    const Environment mapped{{"CUBFC_ALLOCATOR", "vmm"}};
    modes.push_back({name + ", mapped, grown, limited", mapped + grown + kLimit});
    if (!kSanitized) {
      modes.push_back({name + ", mapped, preallocated", mapped + preallocated});
    }
  }
  return modes;
}

std::vector<Mode> other_modes() {
  const Environment platform{{"CUBFC_ALLOCATOR", "platform"}};
  const Environment shared{{"CUBFC_IPC", "driver"}};
  const Environment pool{{"CUBFC_ALLOCATOR", "cuda_async"}};
  const Environment deferred{{"CUBFC_FREE", "deferred"}};
  std::vector<Mode> modes{{"platform, limited", platform + kLimit},
                          {"dedicated, deferred", shared + deferred},
                          {"pool, deferred, limited", pool + deferred + kLimit}};
  if (!kSanitized) {
    modes.push_back({"platform", platform});
    modes.push_back({"dedicated, sync", shared});
    modes.push_back({"pool, sync", pool});
    modes.push_back({"pool, sync, limited", pool + kLimit});
    modes.push_back({"pool, deferred", pool + deferred});
  }
  return modes;
}

// What each promise saw, its verdict in front, by name.
using Seen = std::map<std::string, std::string>;

Seen seen_in(const std::string& out) {
  Seen seen;
  std::istringstream lines(out);
  std::string* current = nullptr;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t name = line.rfind(' ') + 1;
    if (line.starts_with("    ") && current != nullptr) {
      *current += line + "\n";
    } else if (line.find(" promises: ") == std::string::npos) {
      current = &seen[line.substr(name)];
      *current = line.substr(0, name) + "\n";
    }
  }
  return seen;
}

const Environment kSoftware{{"STANDIN_DEVICES", "2"}, {"STANDIN_MEMORY", "1GiB"}};

Outcome run_all(const Environment& machine, const char* via, const Mode* mode = nullptr,
                const std::string& only = "") {
  std::vector<std::string> command{kConformance, via, "--verbose"};
  if (!only.empty()) {
    command.push_back(only);
  }
  return mode == nullptr ? run(command, machine)
                         : run_preloaded(command, machine + mode->environment);
}

// What each line says is what it says of the driver alone, but that what the driver does after a
// wait may be done at once.
bool is_as_before(const std::string& lines, const std::string& before) {
  const std::string kWaited = ": after a wait";
  std::istringstream now(lines);
  std::istringstream then(before);
  std::string line;
  std::string old;
  while (std::getline(now, line)) {
    if (!std::getline(then, old)) {
      return false;
    }
    if (old.ends_with(kWaited) && line.ends_with(": at once")) {
      old.replace(old.size() - kWaited.size(), std::string::npos, ": at once");
    }
    if (line != old) {
      return false;
    }
  }
  return !std::getline(then, old);
}

// Of a promise whose difference is known: on the driver as it is it shows, on another one it may.
enum class Known { kDiffers, kMayDiffer };

void compare(const Seen& bare, const Seen& seen, const std::string& mode,
             Known known = Known::kDiffers) {
  CHECK(seen.size() == bare.size());
  for (const auto& [promise, lines] : seen) {
    const auto before = bare.find(promise);
    REQUIRE(before != bare.end());
    INFO(mode << ": " << promise << ": " << lines << "where the driver alone gives "
              << before->second);
    CHECK_FALSE(lines.starts_with("status"));  // a crash is no known difference
    if (!is_known(promise, mode)) {
      CHECK(is_as_before(lines, before->second));
    } else if (known == Known::kDiffers) {
      CHECK(lines != before->second);
    }
  }
}

void compare_modes(const Environment& machine, const std::vector<Mode>& modes, const char* via) {
  const Outcome bare = run_all(machine, via);
  if (bare.status != 0 || bare.out.find(": after a wait") != std::string::npos) {
    FAIL("bare: " << bare.out << bare.err);
  }
  for (const Mode& mode : modes) {
    compare(seen_in(bare.out), seen_in(run_all(machine, via, &mode).out), mode.name + ", " + via);
  }
}

// Another driver or another device (tests/standin/profiles). What is promised need not hold on it,
// but what a program sees is the same.
void compare_on_profile(const std::string& name, const std::vector<Mode>& modes) {
  Environment machine = kSoftware;
  machine["STANDIN_PROFILE"] =
      std::string(CUBFC_TEST_SOURCES) + "/standin/profiles/" + name + ".json";
  const std::string of_older = std::string(CUBFC_TEST_BUILD) + "/tests/standin/lib-";
  if (name.starts_with("driver-") && access((of_older + name.substr(7)).c_str(), F_OK) == 0) {
    machine["LD_LIBRARY_PATH"] = of_older + name.substr(7);
  }
  const Seen bare = seen_in(run_all(machine, "--via=dlsym").out);
  CHECK(bare.size() > 100);
  for (const Mode& mode : modes) {
    compare(bare, seen_in(run_all(machine, "--via=dlsym", &mode).out), name + ", " + mode.name,
            Known::kMayDiffer);
  }
}

// Small enough for all of them to be on one device at the same time.
std::vector<Mode> gpu_modes() {
  const Environment some{{"CUBFC_PREALLOCATE_LIMIT", "2GiB"}};
  const Environment deferred{{"CUBFC_FREE", "deferred"}};
  const Environment grown{{"CUBFC_PREALLOCATE", "false"}};
  const Environment mapped{{"CUBFC_ALLOCATOR", "vmm"}};
  const Environment pool{{"CUBFC_ALLOCATOR", "cuda_async"}};
  return {{"arena, sync, preallocated", some},
          {"arena, deferred, grown", deferred + grown},
          {"arena, sync, mapped, preallocated", mapped + some},
          {"arena, deferred, mapped, grown", mapped + deferred + grown},
          {"pool, deferred", pool + deferred}};
}

// Bare first, then each mode. What others on the device can be seen by is asked of one after the
// other.
std::vector<Seen> seen_in_all(const Environment& machine, const std::vector<Mode>& modes) {
  constexpr const char* kVia = "--via=dlsym";
  std::vector<const Mode*> all{nullptr};
  for (const Mode& mode : modes) {
    all.push_back(&mode);
  }
  std::vector<std::future<Outcome>> beside;
  for (const Mode* mode : all) {
    beside.push_back(std::async(std::launch::async, run_all, machine, kVia, mode, "--only=beside"));
  }
  std::vector<Seen> seen;
  for (std::future<Outcome>& each : beside) {
    seen.push_back(seen_in(each.get().out));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    seen[i].merge(seen_in(run_all(machine, kVia, all[i], "--only=alone").out));
  }
  return seen;
}

void compare_modes_at_once(const Environment& machine, const std::vector<Mode>& modes) {
  const std::vector<Seen> seen = seen_in_all(machine, modes);
  const Seen& bare = seen.front();
  for (const auto& [promise, lines] : bare) {
    INFO("bare: " << promise << ": " << lines);
    CHECK((lines.starts_with("kept") || lines.starts_with("lacking")));
  }
  for (std::size_t i = 0; i < modes.size(); ++i) {
    compare(bare, seen[i + 1], modes[i].name);
  }
}

// The driver of this machine, of which this program's own environment says where it is.
Environment machine_of_this_process() {
  Environment machine{{"LD_LIBRARY_PATH", ""}};
  for (const char* name : {"LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"}) {
    if (const char* value = std::getenv(name)) {
      machine[name] = value;
    }
  }
  return machine;
}

}  // namespace

TEST_CASE("every promise is kept as without the library, in every mode of the arena", "[arena]") {
  compare_modes(kSoftware, arena_modes(), "--via=linked");
}

TEST_CASE("every promise is kept as without the library, where the driver gives the memory",
          "[driver]") {
  compare_modes(kSoftware, other_modes(), "--via=linked");
}

TEST_CASE("every promise is kept whichever way the driver is found", "[ways]") {
  for (const char* via : {"--via=dlsym", "--via=getproc"}) {
    if (kSanitized) {
      continue;  // the look-ups are sanitized in the tests of the preload
    }
    compare_modes(kSoftware, {{"arena, sync, preallocated", {}}}, via);
  }
}

TEST_CASE(
    "on older drivers and on other devices a program sees what it sees there without the library",
    "[profiles]") {
  const Environment grown{{"CUBFC_PREALLOCATE", "false"}};
  const Environment deferred{{"CUBFC_FREE", "deferred"}};
  const std::vector<Mode> modes{{"arena, sync, preallocated", {}},
                                {"arena, deferred, mapped, grown",
                                 deferred + grown + Environment{{"CUBFC_ALLOCATOR", "vmm"}}}};
  for (const char* name :
       {"driver-12.0", "driver-12.5", "driver-13.4", "driver-limit", "driver-limit-untold", "gb10",
        "line", "mig", "without-mapping", "without-mapping-and-pools", "without-pools", "wsl"}) {
    compare_on_profile(name, modes);
  }
}

TEST_CASE("every known difference is of a promise", "[ways]") {
  const std::string names = run({kConformance, "--list"}).out;
  for (const KnownDifference& known : kKnownDifferences) {
    INFO(known.promise << ": " << known.reason);
    CHECK(names.find(known.promise + std::string("\n")) != std::string::npos);
  }
}

TEST_CASE("a machine with one device cannot tell of two, and a wrong argument is refused",
          "[ways]") {
  if (!kSanitized) {
    CHECK(run({kConformance}, {{"STANDIN_DEVICES", "1"}}).status == 0);
  }
  CHECK(run({kConformance, "devices_have_memory_of_their_own"}).status == 77);
  CHECK(run({kConformance}, {{"STANDIN_DEVICES", "0"}}).status == 77);
  for (const char* wrong : {"--no-such-option", "no_such_promise", "--via=guessing"}) {
    CHECK(run({kConformance, wrong}).status == 2);
  }
}

TEST_CASE("modes that run beside each other on one device show what they show alone", "[ways]") {
  if (!kSanitized) {
    const Environment one_device{{"STANDIN_SHARED", scratch("shared")},
                                 {"STANDIN_MEMORY", "40GiB"}};
    compare_modes_at_once(one_device, gpu_modes());
  }
}

TEST_CASE("every promise is kept on the GPU of this machine", "[.gpu]") {
  const Environment machine = machine_of_this_process();
  if (dlopen("libcuda.so.1", RTLD_NOW) == nullptr ||
      run({kConformance, "zero_bytes_are_refused"}, machine).status == 77) {
    std::puts("there is no CUDA driver, or no device");
    std::exit(77);
  }
  compare_modes_at_once(machine, gpu_modes());
}
