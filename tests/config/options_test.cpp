// The table of options, and that everything printed from it is right.
#include "config/options.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "catch.h"
#include "config/environment.h"

namespace config = cubfc::config;
using config::Environment;
using config::LogLevel;
using config::Option;
using config::options;
using config::Policy;
using config::read_policy;
using config::Spelling;

namespace {

// A value for each name that is accepted, and is shown as the third text.
struct Example {
  std::string name;
  std::string value;
  std::string shown;
  std::string beside = "CUBFC_SHOW_STATS=false";  // what its owner wants with it
};

const std::vector<Example>& examples() {
  static const std::vector<Example> all = {
      {"CUBFC_ALLOCATOR", "cuda_async", "cuda_async"},
      {"XLA_PYTHON_CLIENT_ALLOCATOR", "address", "platform"},
      {"TF_GPU_ALLOCATOR", "cuda_malloc_async", "cuda_async"},
      {"CUBFC_PREALLOCATE", "off", "false"},
      {"XLA_PYTHON_CLIENT_PREALLOCATE", "False", "false"},
      {"TF_FORCE_GPU_ALLOW_GROWTH", "true", "false"},
      {"CUBFC_MEM_FRACTION", "50%", "0.5"},
      {"XLA_CLIENT_MEM_FRACTION", "0.75-0.85", "0.75-0.85"},
      {"XLA_PYTHON_CLIENT_MEM_FRACTION", ".9", "0.9"},
      {"CUBFC_MEM_FRACTION_OF", "Total", "total"},
      {"CUBFC_MEM_LIMIT", "8589934592", "8GiB"},
      {"CUDA_DEVICE_MEMORY_LIMIT", "20g", "20GiB"},
      {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G,1=512M", "0=1GiB,1=512MiB"},
      {"GPU_MEMORY_LIMIT", "3000m", "3000MiB"},
      {"NVIDIA_GPU_MEMORY_LIMIT", "8192", "8GiB", "NVIDIA_GPU_MEMORY_REQUEST=4096"},
      {"CUBFC_MEM_REQUEST", "25%", "25%"},
      {"NVIDIA_GPU_MEMORY_REQUEST", "4096", "4GiB", "NVIDIA_GPU_MEMORY_LIMIT=8192"},
      {"CUBFC_GROUP", "training-7", "training-7"},
      {"CUBFC_GROUP_LIMIT", "20GiB", "20GiB"},
      {"CUBFC_PREALLOCATE_LIMIT", "1536M", "1536MiB"},
      {"JAX_PREALLOCATION_SIZE_LIMIT_BYTES", "4096", "4KiB"},
      {"CUBFC_RESERVE", "512MiB", "512MiB"},
      {"CUBFC_HOST_RESERVE", "4GiB", "4GiB"},
      {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB", "2048", "2GiB"},
      {"CUBFC_ASYNC_PREALLOCATE", "-1", "-1"},
      {"TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC", "1048576", "1MiB"},
      {"CUBFC_TRIM_AFTER", "90000ms", "90s"},
      {"CUBFC_SLEEP", "on", "true"},
      {"CUBFC_SLEEP_AFTER", "10m", "10min"},
      {"CUBFC_SLEEP_HOST", "/scratch/%h", "/scratch/%h"},
      {"CUBFC_UNIFIED_MEMORY", "on", "true"},
      {"TF_FORCE_UNIFIED_MEMORY", "1", "true"},
      {"CUBFC_FREE", "Deferred", "deferred"},
      {"CUBFC_STREAM_ORDERED", "arena", "arena"},
      {"CUBFC_NVML", "on", "true"},
      {"CUBFC_IPC", "Driver", "driver"},
      {"CUBFC_LIMIT_COUNTS", "Arena", "arena"},
      {"CUBFC_LOG_LEVEL", "warning", "warn"},
      {"CUBFC_LOG_FILE", "/tmp/cubfc.%p.log", "/tmp/cubfc.%p.log"},
      {"CUBFC_SHOW_STATS", "yes", "true"},
      {"CUBFC_SUMMARY", "/tmp/summary.%p.json", "/tmp/summary.%p.json"},
      {"CUBFC_OOM_REPORT", "/tmp/oom.%p.jsonl", "/tmp/oom.%p.jsonl"},
      {"CUBFC_TRACE", "/tmp/trace.%p.cubfc", "/tmp/trace.%p.cubfc"},
      {"CUBFC_TRACE_LIMIT", "256M", "256MiB"},
      {"CUBFC_TRACE_STACKS", "8", "8"},
      {"CUBFC_TRACE_TENSORS", "no", "false"},
      {"CUBFC_SHARE_STATS", "no", "false"},
      {"CUBFC_TRACK_CALLERS", "0", "false"},
      {"CUBFC_LIMIT_ORIGIN", "num_gpus=0.25", "num_gpus=0.25"},
      {"CUBFC_LABELS", "pod=trainer-0,namespace=ml", "pod=trainer-0,namespace=ml"},
      {"CUBFC_DISABLE", "1", "true"},
  };
  return all;
}

const Option& option_with(const std::string& name) {
  for (const Option& option : options()) {
    if (option.own.name == name ||
        std::ranges::any_of(option.honoured, [&](const Spelling& s) { return s.name == name; })) {
      return option;
    }
  }
  FAIL("no option has the name " << name);
  return options().front();
}

}  // namespace

TEST_CASE("every option takes its value from every one of its names, and knows from which",
          "[config]") {
  for (const Example& example : examples()) {
    INFO(example.name);
    const Policy policy =
        read_policy(Environment{example.name + "=" + example.value, example.beside});
    CHECK(policy.warnings.empty());
    const Option& option = option_with(example.name);
    const bool own = option.own.name == example.name;
    CHECK(option.show(policy) == example.shown);
    CHECK(option.origin(policy).variable == example.name);
    CHECK(option.origin(policy).value == example.value);
    CHECK(option.origin(policy).own_name == own);
    const std::string origin = own ? example.name : example.name + "=" + example.value;
    CHECK(config::in_force(option, policy) == example.shown + " (" + origin + ")");
  }
}

TEST_CASE("every name is covered by an example here", "[config]") {
  std::set<std::string> covered;
  for (const Example& example : examples()) {
    covered.insert(example.name);
  }
  std::set<std::string> known;
  for (const Option& option : options()) {
    known.emplace(option.own.name);
    for (const Spelling& spelling : option.honoured) {
      known.emplace(spelling.name);
    }
  }
  CHECK(covered == known);
}

TEST_CASE("spdlog's names of levels are known, the short and the long ones", "[config]") {
  struct Case {
    const char* word;
    LogLevel level;
  };
  for (const Case& each : {Case{"trace", LogLevel::kTrace}, Case{"debug", LogLevel::kDebug},
                           Case{"info", LogLevel::kInfo}, Case{"warn", LogLevel::kWarn},
                           Case{"warning", LogLevel::kWarn}, Case{"error", LogLevel::kError},
                           Case{"err", LogLevel::kError}, Case{"critical", LogLevel::kCritical},
                           Case{"off", LogLevel::kOff}}) {
    CHECK(read_policy(Environment{std::string("CUBFC_LOG_LEVEL=") + each.word}).log_level.value ==
          each.level);
  }
}

TEST_CASE("the default that is printed is the default that is in force", "[config]") {
  const Policy nothing_set = read_policy(Environment{});
  for (const Option& option : options()) {
    INFO(option.own.name);
    CHECK_FALSE(option.default_text.empty());
    const auto value = option.own.read(option.default_text, Policy{});
    const bool words = option.default_text.starts_with("unset") || option.default_text == "stderr";
    if (!words) {
      REQUIRE(value.has_value());
      CHECK(option.show(nothing_set) == option.default_text);
    } else {
      CHECK(option.show(nothing_set) == "unset");
    }
  }
}

TEST_CASE("what is in force is told with its origin", "[config]") {
  const Policy policy =
      read_policy(Environment{"CUBFC_MEM_LIMIT=8G", "TF_FORCE_GPU_ALLOW_GROWTH=true"});
  const auto told = [&](const char* name) { return config::in_force(option_with(name), policy); };
  CHECK(told("CUBFC_ALLOCATOR") == "bfc (default)");
  CHECK(told("CUBFC_MEM_LIMIT") == "8GiB (CUBFC_MEM_LIMIT)");
  CHECK(told("CUBFC_PREALLOCATE") == "false (TF_FORCE_GPU_ALLOW_GROWTH=true)");
  CHECK(told("CUBFC_MEM_FRACTION") == "unset (0.75) (default)");
}

TEST_CASE("a value that is printed can be set again and means the same", "[config]") {
  for (const Example& example : examples()) {
    const Option& option = option_with(example.name);
    if (option.own.name != example.name) {
      continue;
    }
    INFO(example.name);
    const Policy policy =
        read_policy(Environment{std::string(option.own.name) + "=" + example.shown});
    CHECK(policy.warnings.empty());
    CHECK(option.show(policy) == example.shown);
  }
}

TEST_CASE("an option is found by its name", "[config]") {
  REQUIRE(config::find_option("CUBFC_MEM_FRACTION_OF") != nullptr);
  CHECK(config::find_option("CUBFC_MEM_FRACTION_OF")->own.name == "CUBFC_MEM_FRACTION_OF");
  CHECK(config::find_option("CUBFC_NOTHING") == nullptr);
}

TEST_CASE("a share above 1 is a value only with unified memory", "[config]") {
  const Option& option = *config::find_option("CUBFC_MEM_FRACTION");
  Policy policy;
  CHECK(option.own.read("1", policy).has_value());
  CHECK_FALSE(option.own.read("1.5", policy).has_value());
  policy.unified_memory.value = true;
  CHECK(option.own.read("1.5", policy).has_value());
  CHECK_FALSE(option.own.read("100", policy).has_value());
  CHECK_FALSE(option.own.read("0", policy).has_value());
}

TEST_CASE("the table has a row for every option and every row its four cells", "[config]") {
  const std::string table = config::markdown_table();
  CHECK(static_cast<std::size_t>(std::ranges::count(table, '\n')) == options().size() + 2);
  std::size_t start = 0;
  while (start < table.size()) {
    const std::string line = table.substr(start, table.find('\n', start) - start);
    INFO(line);
    CHECK(std::ranges::count(line, '|') == 5);
    start += line.size() + 1;
  }
}

TEST_CASE("the documents' table of options is the one that the library reads", "[config]") {
  std::ifstream file(CUBFC_OPTIONS_PAGE);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const std::string open = "<!-- options -->";
  const std::size_t begin = page.find(open);
  const std::size_t end = page.find("<!-- /options -->");
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  std::string between = page.substr(begin + open.size(), end - begin - open.size());
  between.erase(0, between.find_first_not_of('\n'));
  between.erase(between.find_last_not_of('\n') + 1);
  INFO("cubfc_options_table prints the table to paste");
  CHECK(between + "\n" == config::markdown_table());
}
