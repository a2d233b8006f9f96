// Other projects' names by their owners' meaning: each value that their documents have, and what is
// in force then on a device of 80 GiB of which 60 are free. And what is said of names that have no
// meaning here.
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "catch.h"
#include "config/environment.h"
#include "config/known_names.h"
#include "config/options.h"
#include "config/policy.h"

namespace config = cubfc::config;
using config::Allocator;
using config::Environment;
using config::Policy;
using config::read_policy;

namespace {

constexpr std::uint64_t kMi = std::uint64_t{1} << 20U;
constexpr std::uint64_t kGi = std::uint64_t{1} << 30U;
constexpr std::uint64_t kTotal = 80 * kGi;
constexpr std::uint64_t kFree = 60 * kGi;

Policy policy_of(const std::vector<std::string>& entries) {
  return read_policy(Environment(std::span<const std::string>(entries)));
}

struct Meaning {
  std::vector<std::string> set;
  std::uint64_t preallocated;
  std::optional<std::uint64_t> limit;  // of device 0
  bool gives_to_others = false;
  bool is_seen = false;  // the limit is the device's size to the program
  Allocator allocator = Allocator::kBfc;
  std::size_t warnings = 0;
};

const std::vector<Meaning>& meanings() {
  static const std::vector<Meaning> all = {
      // JAX: a fraction is of the total, and so much is taken at once.
      {{"XLA_CLIENT_MEM_FRACTION=.50"}, 40 * kGi, 40 * kGi},
      {{"XLA_CLIENT_MEM_FRACTION=0.25"}, 20 * kGi, 20 * kGi},
      {{"XLA_PYTHON_CLIENT_MEM_FRACTION=.50"}, 40 * kGi, 40 * kGi},
      {{"XLA_CLIENT_MEM_FRACTION=.90"}, kFree, 72 * kGi},  // as far as it is there
      {{"XLA_CLIENT_MEM_FRACTION=0.5+"}, 40 * kGi, std::nullopt},
      {{"XLA_CLIENT_MEM_FRACTION=0.25-0.75"}, 20 * kGi, 60 * kGi},
      {{"XLA_CLIENT_MEM_FRACTION=.5", "XLA_PYTHON_CLIENT_PREALLOCATE=false"}, 0, 40 * kGi},
      {{"XLA_CLIENT_MEM_FRACTION=.5", "CUBFC_MEM_FRACTION_OF=free"}, 30 * kGi, 40 * kGi},
      {{"XLA_CLIENT_MEM_FRACTION=.5", "CUBFC_MEM_FRACTION=.25"}, 15 * kGi, 20 * kGi, false, true},
      {{"XLA_PYTHON_CLIENT_PREALLOCATE=false"}, 0, std::nullopt, true},
      {{"XLA_PYTHON_CLIENT_PREALLOCATE=False"}, 0, std::nullopt, true},
      {{"XLA_PYTHON_CLIENT_PREALLOCATE=0"}, 0, std::nullopt, true},
      {{"XLA_PYTHON_CLIENT_PREALLOCATE=true"}, 45 * kGi, std::nullopt},
      {{"XLA_PYTHON_CLIENT_PREALLOCATE=1"}, 45 * kGi, std::nullopt},
      {{"XLA_PYTHON_CLIENT_PREALLOCATE=off"},
       45 * kGi,
       std::nullopt,
       false,
       false,
       Allocator::kBfc,
       1},
      {{"XLA_PYTHON_CLIENT_PREALLOCATE=FALSE"},
       45 * kGi,
       std::nullopt,
       false,
       false,
       Allocator::kBfc,
       1},
      {{"XLA_PYTHON_CLIENT_ALLOCATOR=default"}, 45 * kGi, std::nullopt, true},
      {{"XLA_PYTHON_CLIENT_ALLOCATOR=bfc"}, 45 * kGi, std::nullopt, true},
      {{"XLA_PYTHON_CLIENT_ALLOCATOR=platform"},
       45 * kGi,
       std::nullopt,
       true,
       false,
       Allocator::kPlatform},
      {{"XLA_PYTHON_CLIENT_ALLOCATOR=address"},
       45 * kGi,
       std::nullopt,
       true,
       false,
       Allocator::kPlatform},
      {{"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async"},
       45 * kGi,
       std::nullopt,
       true,
       false,
       Allocator::kCudaAsync},
      {{"XLA_PYTHON_CLIENT_ALLOCATOR=vmm"}, 0, std::nullopt, true, false, Allocator::kVmm},
      {{"XLA_PYTHON_CLIENT_ALLOCATOR=vmm", "XLA_PYTHON_CLIENT_PREALLOCATE=true"},
       45 * kGi,
       std::nullopt,
       false,
       false,
       Allocator::kVmm},
      {{"CUBFC_ALLOCATOR=vmm"}, 45 * kGi, std::nullopt, true, false, Allocator::kVmm},
      // TensorFlow
      {{"TF_FORCE_GPU_ALLOW_GROWTH=true"}, 0, std::nullopt, true},
      {{"TF_FORCE_GPU_ALLOW_GROWTH=false"}, 45 * kGi, std::nullopt},
      {{"TF_GPU_ALLOCATOR=cuda_malloc_async"},
       45 * kGi,
       std::nullopt,
       true,
       false,
       Allocator::kCudaAsync},
      {{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB=20480"}, 40 * kGi, std::nullopt, true},
      // HAMi and KAI
      {{"CUDA_DEVICE_MEMORY_LIMIT=20g"}, 20 * kGi, 20 * kGi, true, true},
      {{"CUDA_DEVICE_MEMORY_LIMIT_0=3000m"}, 3000 * kMi, 3000 * kMi, true, true},
      {{"CUDA_DEVICE_MEMORY_LIMIT_1=3000m"}, 45 * kGi, std::nullopt, true},
      {{"CUDA_DEVICE_MEMORY_LIMIT=20g", "CUDA_DEVICE_MEMORY_LIMIT_0=10g"},
       10 * kGi,
       10 * kGi,
       true,
       true},
      {{"CUDA_DEVICE_MEMORY_LIMIT=0"}, 45 * kGi, std::nullopt, true},
      {{"GPU_MEMORY_LIMIT=8589934592"}, 8 * kGi, 8 * kGi, true, true},
      // MPS
      {{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G,1=512MB"}, kGi, kGi, true, true},
      {{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1=512M"}, 45 * kGi, std::nullopt, true},
      // NVIDIA's container toolkit
      {{"NVIDIA_GPU_MEMORY_LIMIT=8192", "NVIDIA_GPU_MEMORY_REQUEST=4096"},
       8 * kGi,
       8 * kGi,
       true,
       true},
      {{"NVIDIA_GPU_MEMORY_LIMIT=8192", "NVIDIA_GPU_MEMORY_REQUEST=8192"},
       8 * kGi,
       8 * kGi,
       true,
       true},
  };
  return all;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    text += part + " ";
  }
  return text;
}

}  // namespace

TEST_CASE("each name means what its owner's documents say", "[config]") {
  for (const Meaning& meaning : meanings()) {
    INFO(joined(meaning.set));
    const Policy policy = policy_of(meaning.set);
    const auto limit = policy.hard_limit(kTotal, 0);
    CHECK(policy.preallocation(kFree, kTotal) == meaning.preallocated);
    CHECK((limit ? std::optional(limit->bytes) : std::nullopt) == meaning.limit);
    CHECK((limit && limit->is_seen()) == meaning.is_seen);
    CHECK(policy.gives_to_others() == meaning.gives_to_others);
    CHECK(policy.allocator.value == meaning.allocator);
    CHECK(policy.warnings.size() == meaning.warnings);
    CHECK_FALSE(policy.limit_unusable);
  }
}

TEST_CASE("what JAX takes for true is, and a warning says so", "[config]") {
  const Policy policy = policy_of({"XLA_PYTHON_CLIENT_PREALLOCATE=off"});
  REQUIRE(policy.warnings.size() == 1);
  CHECK(policy.warnings[0] ==
        "XLA_PYTHON_CLIENT_PREALLOCATE=\"off\" means true, as to JAX, which takes every word for "
        "true but false, False and 0; in force: true (XLA_PYTHON_CLIENT_PREALLOCATE=off)");
}

TEST_CASE("where the share that is preallocated comes from is told", "[config]") {
  const Policy policy = policy_of({"XLA_CLIENT_MEM_FRACTION=0.5"});
  CHECK(config::in_force(*config::find_option("CUBFC_MEM_FRACTION_OF"), policy) ==
        "total (XLA_CLIENT_MEM_FRACTION=0.5)");
  const Policy vmm = policy_of({"XLA_PYTHON_CLIENT_ALLOCATOR=vmm"});
  CHECK(config::in_force(*config::find_option("CUBFC_PREALLOCATE"), vmm) ==
        "false (XLA_PYTHON_CLIENT_ALLOCATOR=vmm)");
}

TEST_CASE("the toolkit's limit and request count together or not at all", "[config]") {
  struct Case {
    std::vector<std::string> set;
    std::string warning;
  };
  const std::vector<Case> cases = {
      {{"NVIDIA_GPU_MEMORY_LIMIT=8192"},
       "NVIDIA_GPU_MEMORY_LIMIT=\"8192\" cannot be used: NVIDIA_GPU_MEMORY_REQUEST is needed, too, "
       "a whole number of MiB; in force: unset (default)"},
      {{"NVIDIA_GPU_MEMORY_REQUEST=8192"},
       "NVIDIA_GPU_MEMORY_REQUEST=\"8192\" cannot be used: NVIDIA_GPU_MEMORY_LIMIT is needed, too, "
       "a whole number of MiB, and not 0; in force: unset (default)"},
      {{"NVIDIA_GPU_MEMORY_LIMIT=8192", "NVIDIA_GPU_MEMORY_REQUEST=8193"},
       "NVIDIA_GPU_MEMORY_LIMIT=\"8192\" cannot be used: the request may be as much as the limit "
       "at "
       "most; in force: unset (default)"},
      {{"NVIDIA_GPU_MEMORY_LIMIT=8g", "NVIDIA_GPU_MEMORY_REQUEST=4096"},
       "NVIDIA_GPU_MEMORY_LIMIT=\"8g\" cannot be used; accepted: a whole number of MiB, and not 0; "
       "in force: unset (default)"},
      {{"NVIDIA_GPU_MEMORY_LIMIT=0", "NVIDIA_GPU_MEMORY_REQUEST=0"},
       "NVIDIA_GPU_MEMORY_LIMIT=\"0\" cannot be used; accepted: a whole number of MiB, and not 0; "
       "in force: unset (default)"},
  };
  for (const Case& each : cases) {
    INFO(joined(each.set));
    const Policy policy = policy_of(each.set);
    CHECK_FALSE(policy.limits());
    CHECK(policy.kept_from_others(kTotal) == 0);
    REQUIRE_FALSE(policy.warnings.empty());
    CHECK(policy.warnings[0] == each.warning);
  }
  const Policy none = policy_of({"NVIDIA_GPU_MEMORY_LIMIT=8192", "NVIDIA_GPU_MEMORY_REQUEST=0"});
  CHECK(none.hard_limit(kTotal)->bytes == 8 * kGi);
  CHECK(none.kept_from_others(kTotal) == 0);
  CHECK(none.warnings.empty());
  const Policy both = policy_of({"NVIDIA_GPU_MEMORY_LIMIT=8192", "NVIDIA_GPU_MEMORY_REQUEST=4096"});
  CHECK(both.kept_from_others(kTotal) == 4 * kGi);
  CHECK(both.kept_from_others(kTotal, 3) == 4 * kGi);
}

TEST_CASE("of the container's limit and another the less holds", "[config]") {
  for (const char* other : {"CUBFC_MEM_LIMIT=", "CUDA_DEVICE_MEMORY_LIMIT=", "GPU_MEMORY_LIMIT="}) {
    for (const std::uint64_t gib : {4, 8, 16}) {
      const Policy policy =
          policy_of({other + std::to_string(gib) + "g", "NVIDIA_GPU_MEMORY_LIMIT=8192",
                     "NVIDIA_GPU_MEMORY_REQUEST=1024"});
      INFO(other << gib);
      CHECK(policy.warnings.empty());
      CHECK(policy.hard_limit(kTotal)->bytes == std::min<std::uint64_t>(gib, 8) * kGi);
      CHECK(policy.hard_limit(kTotal)->is_seen());
    }
  }
  const Policy policy = policy_of(
      {"CUBFC_MEM_LIMIT=20g", "NVIDIA_GPU_MEMORY_LIMIT=8192", "NVIDIA_GPU_MEMORY_REQUEST=1024"});
  CHECK(policy.hard_limit(kTotal)->origin->variable == "NVIDIA_GPU_MEMORY_LIMIT");
  CHECK(config::in_force(*config::find_option("CUBFC_MEM_LIMIT"), policy) ==
        "20GiB (CUBFC_MEM_LIMIT); and: 8GiB (NVIDIA_GPU_MEMORY_LIMIT=8192)");
  CHECK(config::is_in_mebibytes("NVIDIA_GPU_MEMORY_LIMIT"));
  CHECK_FALSE(config::is_in_mebibytes("CUBFC_MEM_LIMIT"));
}

TEST_CASE("a limit in others' words is the group's where that names none", "[config]") {
  for (const char* entry :
       {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=20G", "CUDA_DEVICE_MEMORY_LIMIT=20g",
        "GPU_MEMORY_LIMIT=20g", "NVIDIA_GPU_MEMORY_LIMIT=20480"}) {
    INFO(entry);
    const Policy policy = policy_of({entry, "CUBFC_GROUP=g", "NVIDIA_GPU_MEMORY_REQUEST=1"});
    CHECK_FALSE(policy.limit_unusable);
    CHECK_FALSE(policy.process_limit(kTotal).has_value());
    CHECK(policy.hard_limit(kTotal)->bytes == 20 * kGi);
    CHECK(policy.hard_limit(kTotal)->is_seen());
    CHECK(policy.warnings.size() == (policy.mem_request.is_set() ? 0U : 1U));
  }
  const Policy both = policy_of(
      {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=20G", "CUBFC_GROUP=g", "CUBFC_GROUP_LIMIT=50%"});
  CHECK(both.process_limit(kTotal)->bytes == 20 * kGi);
  CHECK(both.group_limit.value.on(0, kTotal) == 40 * kGi);
  for (const char* of_process : {"CUBFC_MEM_LIMIT=16g", "CUDA_DEVICE_MEMORY_LIMIT=16g"}) {
    INFO(of_process);
    const Policy policy = policy_of({of_process, "CUBFC_GROUP=g", "NVIDIA_GPU_MEMORY_LIMIT=8192",
                                     "NVIDIA_GPU_MEMORY_REQUEST=1"});
    CHECK_FALSE(policy.limit_unusable);
    CHECK(policy.process_limit(kTotal)->bytes == 16 * kGi);
    CHECK(policy.group_limit.value.on(0, kTotal) == 8 * kGi);
    CHECK(policy.hard_limit(kTotal)->bytes == 8 * kGi);
  }
  const Policy ours = policy_of({"CUBFC_MEM_LIMIT=20G", "CUBFC_GROUP=g"});
  CHECK(ours.limit_unusable);
}

TEST_CASE("a limit may be a share of each device", "[config]") {
  const Policy policy =
      policy_of({"CUBFC_MEM_LIMIT=25%,1=8GiB", "CUBFC_GROUP=g", "CUBFC_GROUP_LIMIT=0=50%"});
  CHECK(policy.warnings.empty());
  CHECK(policy.process_limit(kTotal, 0)->bytes == 20 * kGi);
  CHECK(policy.process_limit(kTotal, 1)->bytes == 8 * kGi);
  CHECK(policy.process_limit(kGi, 1)->bytes == kGi);  // the device has no more
  CHECK(policy.group_limit.value.on(0, kTotal) == 40 * kGi);
  CHECK_FALSE(policy.group_limit.value.on(1, kTotal).has_value());
  CHECK(config::device_amounts_text(policy.mem_limit.value) == "25%,1=8GiB");
  CHECK(policy_of({"CUBFC_MEM_LIMIT=100%"}).hard_limit(kTotal)->bytes == kTotal);
}

TEST_CASE("a name that has no meaning here is noted, where its value says anything of memory",
          "[config]") {
  config::for_each_known_name([](const config::KnownName& known) {
    const std::string set = std::string(known.name) + "=memory_fraction:0.5";
    INFO(set);
    const Policy policy = policy_of({set});
    REQUIRE(policy.notes.size() == 1);
    CHECK(policy.notes[0].starts_with(std::string(known.name) + "=\"memory_fraction:0.5\" "));
    CHECK(policy.warnings.empty());
    CHECK_FALSE(policy.limits());
  });
  CHECK(policy_of({"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"}).notes.empty());
  CHECK(policy_of({"XLA_FLAGS=--xla_gpu_autotune_level=0"}).notes.empty());
  CHECK(policy_of({"CUDA_DISABLE_CONTROL=false"}).notes.empty());
  CHECK(policy_of({"CUDA_DISABLE_CONTROL=true"}).notes.size() == 1);
}

TEST_CASE("to set an option to its default changes nothing", "[config]") {
  const Policy plain;
  for (const config::Option& option : config::options()) {
    const std::string text(option.default_text);
    if (text.starts_with("unset")) {
      continue;
    }
    INFO(option.own.name << "=" << text);
    const Policy policy = policy_of({std::string(option.own.name) + "=" + text});
    CHECK(policy.warnings.empty());
    CHECK(config::is_set(option, policy));
    for (const config::Option& other : config::options()) {
      CHECK(other.show(policy) == other.show(plain));
    }
    CHECK(policy.gives_to_others() == plain.gives_to_others());
    CHECK(policy.preallocation(kFree, kTotal) == plain.preallocation(kFree, kTotal));
    CHECK(policy.limits() == plain.limits());
    CHECK(policy.firm_limit() == nullptr);
    CHECK(policy.observes() == plain.observes());
  }
}

TEST_CASE("a word that means yes or no is no file", "[config]") {
  for (const char* name : {"CUBFC_OOM_REPORT", "CUBFC_SUMMARY", "CUBFC_TRACE", "CUBFC_LOG_FILE"}) {
    for (const char* word : {"true", "false", "1", "0", "on", "Off", "yes"}) {
      const Policy policy = policy_of({std::string(name) + "=" + word});
      INFO(name << "=" << word);
      CHECK(policy.warnings.size() == 1);
    }
    CHECK(policy_of({std::string(name) + "=./1"}).warnings.empty());
  }
}

TEST_CASE("the page of limits has the names without a meaning here", "[config]") {
  std::ifstream file(CUBFC_LIMITS_PAGE);
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  CHECK(page.find("<!-- known names -->\n" + config::known_names_table() +
                  "<!-- /known names -->\n") != std::string::npos);
}
