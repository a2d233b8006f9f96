// Limits under other projects' names, of single devices, of groups, and what a policy file
// enforces.
#include <optional>
#include <string>

#include "catch.h"
#include "config/environment.h"
#include "config/options.h"
#include "config/policy.h"
#include "config/policy_file.h"

namespace config = cubfc::config;
using config::Environment;
using config::Policy;
using config::read_policy;

namespace {

constexpr std::uint64_t kMi = std::uint64_t{1} << 20U;
constexpr std::uint64_t kGi = std::uint64_t{1} << 30U;

// Of a device of 80 GiB.
std::optional<std::uint64_t> limit(const Policy& policy, int device = 0) {
  const auto limit = policy.hard_limit(80 * kGi, device);
  return limit ? std::optional(limit->bytes) : std::nullopt;
}

Policy with_file(const std::string& text, const Environment& environment = {},
                 const std::string& why_not = "") {
  return read_policy(environment, config::parse_policy_file("/etc/cubfc.conf", text, why_not));
}

bool says(const Policy& policy, const std::string& part) {
  for (const std::string& warning : policy.warnings) {
    if (warning.find(part) != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("other projects' limits are honoured, with one for each device", "[config]") {
  for (const char* entry : {"CUDA_DEVICE_MEMORY_LIMIT=20g", "CUDA_DEVICE_MEMORY_LIMIT_0=20g",
                            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=20G", "GPU_MEMORY_LIMIT=20Gi",
                            "GPU_MEMORY_LIMIT=21474836480"}) {
    INFO(entry);
    const Policy policy = read_policy(Environment{entry});
    CHECK(policy.warnings.empty());
    CHECK(limit(policy) == 20 * kGi);
    CHECK(policy.hard_limit(80 * kGi)->is_seen());
    CHECK(policy.hard_limit(80 * kGi)->origin->text() == entry);
  }
  const Policy policy =
      read_policy(Environment{"CUDA_DEVICE_MEMORY_LIMIT=10g", "CUDA_DEVICE_MEMORY_LIMIT_1=3000m"});
  CHECK(limit(policy, 0) == 10 * kGi);
  CHECK(limit(policy, 1) == 3000 * kMi);
  CHECK(limit(policy, 2) == 10 * kGi);
  const Policy of_one = read_policy(Environment{"CUDA_DEVICE_MEMORY_LIMIT_1=3000m"});
  CHECK_FALSE(limit(of_one, 0).has_value());
  CHECK(limit(of_one, 1) == 3000 * kMi);
  CHECK(of_one.limits());
}

TEST_CASE("a limit of ours may be one for each device", "[config]") {
  const Policy policy = read_policy(Environment{"CUBFC_MEM_LIMIT=0=8GiB, 3=512M"});
  CHECK(limit(policy, 0) == 8 * kGi);
  CHECK_FALSE(limit(policy, 1).has_value());
  CHECK(limit(policy, 3) == 512 * kMi);
  for (const char* wrong : {"0=", "=8GiB", "0=8GiB,0=9GiB", "8GiB,9GiB", "x=8GiB", "-1=8GiB",
                            "0=8GiB,", ",", "0=0", "0=8GiB 1=9GiB", "99999999999=8GiB"}) {
    INFO(wrong);
    CHECK(read_policy(Environment{std::string("CUBFC_MEM_LIMIT=") + wrong}).limit_unusable);
  }
}

TEST_CASE("a limit under another project's name that cannot be read is told of, and is none",
          "[config]") {
  for (const char* value : {"8192", "a lot", "20x", "80%", "-1"}) {
    INFO(value);
    const Policy policy = read_policy(Environment{std::string("GPU_MEMORY_LIMIT=") + value});
    CHECK_FALSE(policy.limit_unusable);
    CHECK_FALSE(limit(policy).has_value());
    CHECK(says(policy, "GPU_MEMORY_LIMIT"));
  }
  const Policy none = read_policy(Environment{"CUDA_DEVICE_MEMORY_LIMIT=0"});
  CHECK_FALSE(limit(none).has_value());
  CHECK(none.warnings.empty());
}

TEST_CASE("our size wins over theirs; of theirs and a fraction the less holds", "[config]") {
  CHECK(limit(read_policy(Environment{"CUBFC_MEM_LIMIT=30GiB", "GPU_MEMORY_LIMIT=20g"})) ==
        30 * kGi);
  CHECK(limit(read_policy(Environment{"CUBFC_MEM_FRACTION=0.5", "GPU_MEMORY_LIMIT=20g"})) ==
        20 * kGi);
  CHECK(limit(read_policy(Environment{"CUBFC_MEM_FRACTION=0.125", "GPU_MEMORY_LIMIT=20g"})) ==
        10 * kGi);
  CHECK(limit(read_policy(Environment{"CUBFC_MEM_FRACTION=0.125", "CUBFC_MEM_LIMIT=20GiB"})) ==
        20 * kGi);
}

TEST_CASE("a group needs a name and a budget, and preallocates nothing", "[config]") {
  const Policy policy = read_policy(Environment{"CUBFC_GROUP=job", "CUBFC_GROUP_LIMIT=20GiB"});
  CHECK(policy.warnings.empty());
  CHECK(limit(policy) == 20 * kGi);
  CHECK(policy.hard_limit(80 * kGi)->origin->text() == "CUBFC_GROUP_LIMIT");
  CHECK(policy.hard_limit(80 * kGi)->is_seen());
  CHECK_FALSE(policy.process_limit(80 * kGi).has_value());
  CHECK(policy.preallocation(80 * kGi, 80 * kGi) == 0);
  CHECK(policy.gives_to_others());
  CHECK(limit(read_policy(Environment{"CUBFC_GROUP=job", "CUBFC_GROUP_LIMIT=20GiB",
                                      "CUBFC_MEM_LIMIT=5GiB"})) == 5 * kGi);
  const Policy asked = read_policy(Environment{"CUBFC_GROUP=job", "CUBFC_GROUP_LIMIT=20GiB",
                                               "CUBFC_PREALLOCATE=true", "CUBFC_MEM_FRACTION=0.9"});
  CHECK(says(asked, "CUBFC_PREALLOCATE is without effect in a group"));
  CHECK(asked.gives_to_others());
  for (const Environment& half :
       {Environment{"CUBFC_GROUP=job"}, Environment{"CUBFC_GROUP_LIMIT=20GiB"},
        Environment{"CUBFC_GROUP=a/b", "CUBFC_GROUP_LIMIT=20GiB"},
        Environment{"CUBFC_GROUP=..", "CUBFC_GROUP_LIMIT=20GiB"},
        Environment{"CUBFC_GROUP=job", "CUBFC_GROUP_LIMIT=0"}}) {
    const Policy unusable = read_policy(half);
    CHECK(unusable.limit_unusable);
    CHECK(unusable.limit_explanation.find("no device memory is given") != std::string::npos);
  }
}

TEST_CASE("a policy file says what the environment does not", "[config]") {
  const std::string text =
      "# of this machine\n\n  CUBFC_FREE = deferred \r\nCUBFC_MEM_LIMIT=20GiB\n"
      "XLA_PYTHON_CLIENT_PREALLOCATE=false";
  const Policy policy = with_file(text);
  CHECK(policy.warnings.empty());
  CHECK(policy.free_mode.value == config::FreeMode::kDeferred);
  CHECK(policy.free_mode.origin.text() == "CUBFC_FREE in /etc/cubfc.conf");
  CHECK(policy.preallocate.value == config::Preallocate::kNo);
  CHECK(limit(policy) == 20 * kGi);
  const Policy other = with_file(text, Environment{"CUBFC_FREE=sync", "CUBFC_MEM_LIMIT=30GiB",
                                                   "TF_FORCE_GPU_ALLOW_GROWTH=false"});
  CHECK(other.warnings.empty());
  CHECK(other.free_mode.value == config::FreeMode::kSync);
  CHECK(other.preallocate.value == config::Preallocate::kYes);
  CHECK(limit(other) == 30 * kGi);
}

TEST_CASE("what a policy file enforces, no environment overrides", "[config]") {
  const std::string text = "enforce CUBFC_MEM_LIMIT=20GiB\nenforce CUBFC_FREE=sync\n";
  for (const char* entry :
       {"CUBFC_MEM_LIMIT=30GiB", "CUBFC_MEM_LIMIT=0=30GiB", "CUBFC_MEM_FRACTION=1",
        "CUDA_DEVICE_MEMORY_LIMIT=30g", "XLA_CLIENT_MEM_FRACTION=0.9", "CUBFC_DISABLE=true",
        "CUBFC_LIMIT_COUNTS=arena", "CUBFC_FREE=deferred", "CUBFC_UNIFIED_MEMORY=true"}) {
    INFO(entry);
    const Policy policy = with_file(text, Environment{entry});
    CHECK(limit(policy) == 20 * kGi);
    CHECK(policy.hard_limit(80 * kGi)->origin->text() == "CUBFC_MEM_LIMIT in /etc/cubfc.conf");
    CHECK(policy.beside_xla().hard_limit(80 * kGi)->bytes == 20 * kGi);
    CHECK_FALSE(policy.disable.value);
    CHECK(policy.limit_counts.value == config::LimitCounts::kAll);
    CHECK(policy.free_mode.value == config::FreeMode::kSync);
    CHECK(policy.limits());
  }
  CHECK(
      says(with_file(text, Environment{"CUBFC_DISABLE=1"}),
           "CUBFC_DISABLE=\"1\" is without effect beside the limit that /etc/cubfc.conf enforces"));
  CHECK(says(with_file(text, Environment{"CUBFC_FREE=deferred"}), "is enforced"));
  CHECK(
      with_file(text, Environment{"CUBFC_DISABLE=no", "CUBFC_LIMIT_COUNTS=all"}).warnings.empty());
  // Less is for everybody to ask for.
  CHECK(limit(with_file(text, Environment{"CUBFC_MEM_LIMIT=5GiB"})) == 5 * kGi);
  CHECK(limit(with_file(text, Environment{"CUBFC_MEM_FRACTION=0.125"})) == 10 * kGi);
}

TEST_CASE("a group that is enforced cannot be left", "[config]") {
  const std::string text = "enforce CUBFC_GROUP=pod\nenforce CUBFC_GROUP_LIMIT=20GiB\n";
  const Policy policy = with_file(
      text, Environment{"CUBFC_GROUP=mine", "CUBFC_GROUP_LIMIT=80GiB", "CUBFC_DISABLE=1"});
  CHECK(policy.group.value == "pod");
  CHECK(limit(policy) == 20 * kGi);
  CHECK_FALSE(policy.disable.value);
}

TEST_CASE("other projects' limits hold from a policy file, beside XLA's runtime too", "[config]") {
  const Policy policy = with_file("enforce XLA_CLIENT_MEM_FRACTION=0.5\n");
  CHECK(policy.beside_xla().hard_limit(80 * kGi)->bytes == 40 * kGi);
  const Policy plain = with_file("XLA_CLIENT_MEM_FRACTION=0.5\n");
  CHECK(plain.beside_xla().hard_limit(80 * kGi)->bytes == 40 * kGi);
}

TEST_CASE("a disabled machine is one whatever the environment says", "[config]") {
  CHECK(
      with_file("enforce CUBFC_DISABLE=true\n", Environment{"CUBFC_DISABLE=false"}).disable.value);
}

TEST_CASE("whose words a limit has are those that stand in the same place", "[config]") {
  const std::string text =
      "enforce CUBFC_GROUP=pod\nenforce CUBFC_GROUP_LIMIT=20GiB\n"
      "enforce CUBFC_LIMIT_ORIGIN=cubfc.dev/limit=20g\n";
  CHECK(with_file(text).group_limit.origin.by == "cubfc.dev/limit=20g");
  const Policy both = with_file(text, Environment{"CUBFC_MEM_LIMIT=5GiB"});
  CHECK(both.group_limit.origin.by == "cubfc.dev/limit=20g");
  CHECK(both.mem_limit.origin.by.empty());
  const Policy others = with_file("enforce CUBFC_MEM_LIMIT=20GiB\n",
                                  Environment{"CUBFC_LIMIT_ORIGIN=mine", "CUBFC_MEM_LIMIT=5GiB"});
  CHECK(others.mem_limit.origin.by == "mine");
  CHECK(others.enforced.mem_limit.origin.by.empty());
}

TEST_CASE("who may not enforce only proposes, and is told so", "[config]") {
  const std::string text = "enforce CUBFC_MEM_LIMIT=20GiB\n";
  const Policy policy = with_file(text, Environment{"CUBFC_MEM_LIMIT=30GiB"}, "it is not root's");
  CHECK(limit(policy) == 30 * kGi);
  CHECK(says(
      policy,
      "/etc/cubfc.conf: the environment can override what it enforces, since it is not root's"));
  CHECK(limit(with_file(text, {}, "it is not root's")) == 20 * kGi);
}

TEST_CASE("a line that cannot be used is told of with its number; a limit fails closed",
          "[config]") {
  const Policy policy = with_file("CUBFC_FRE=deferred\nPATH=/bin\nnonsense\n=5\n");
  CHECK(says(policy, "CUBFC_FRE in /etc/cubfc.conf is not an option"));
  CHECK(says(policy, "line 2: \"PATH\" is no name that cubfc knows"));
  CHECK(says(policy, "line 3: \"nonsense\" is neither"));
  CHECK(says(policy, "line 4: "));
  CHECK_FALSE(policy.limit_unusable);
  for (const char* unreadable :
       {"CUBFC_MEM_LIMIT=lots", "enforce CUBFC_MEM_LIMIT=lots", "enforce GPU_MEMORY_LIMIT=lots"}) {
    const Policy closed = with_file(unreadable, Environment{"CUBFC_MEM_LIMIT=30GiB"});
    INFO(unreadable);
    CHECK(closed.limit_unusable);
    CHECK(closed.limit_explanation.find("in /etc/cubfc.conf cannot be used") != std::string::npos);
  }
}

TEST_CASE("what somebody enforces and cannot be understood gives nothing", "[config]") {
  for (const char* line :
       {"enforce", "enforce CUBFC_FREE", "enforce CUBFC_MEM_LIMT=1GiB", "enforce PATH=/bin",
        "enforced CUBFC_MEM_LIMIT=1GiB", "Enforce CUBFC_MEM_LIMIT=1GiB", "enforce=1",
        "enforce CUBFC_MEM_LIMIT=", "enforce CUBFC_FREE=later", "enforce export",
        "\xc2\xa0"
        "enforce CUBFC_MEM_LIMIT=1GiB",
        "enforce CUBFC_MEM_LIMIT=3GiB\nenforce CUBFC_MEM_LIMIT=1GiB"}) {
    INFO(line);
    const std::string text = "CUBFC_MEM_LIMIT=2GiB\n" + std::string(line) + "\n";
    const Policy policy = with_file(text, Environment{"CUBFC_DISABLE=1"});
    CHECK(policy.limit_unusable);
    CHECK(policy.limit_explanation.find("/etc/cubfc.conf") != std::string::npos);
    CHECK_FALSE(policy.disable.value);  // nor does the environment lead around it
    CHECK_FALSE(with_file(text, {}, "it is not root's").limit_unusable);
  }
}

TEST_CASE("a policy file may look like a shell's, or an editor's", "[config]") {
  for (const char* text :
       {"\xef\xbb\xbf"
        "enforce CUBFC_MEM_LIMIT=20GiB\n",
        "enforce export CUBFC_MEM_LIMIT=20GiB\r\n", "enforce CUBFC_MEM_LIMIT=\"20GiB\"\n",
        "\xef\xbb\xbf# a comment\nexport CUBFC_MEM_LIMIT='20GiB'\n"}) {
    INFO(text);
    const Policy policy = with_file(text);
    CHECK(limit(policy) == 20 * kGi);
    CHECK(policy.warnings.empty());
  }
}

TEST_CASE("which limits are in words that only cubfc keeps", "[config]") {
  const auto firm = [](const Policy& policy) {
    const config::Origin* const origin = policy.firm_limit();
    return origin == nullptr ? std::string("none") : origin->variable;
  };
  CHECK(firm(read_policy(Environment{"CUBFC_MEM_LIMIT=1GiB"})) == "CUBFC_MEM_LIMIT");
  CHECK(firm(read_policy(Environment{"CUBFC_MEM_FRACTION=0.5"})) == "CUBFC_MEM_FRACTION");
  CHECK(firm(read_policy(Environment{"CUBFC_MEM_FRACTION=0.5+"})) == "none");
  CHECK(firm(read_policy(Environment{"CUBFC_GROUP=a", "CUBFC_GROUP_LIMIT=1GiB"})) ==
        "CUBFC_GROUP_LIMIT");
  CHECK(firm(read_policy(Environment{"CUDA_DEVICE_MEMORY_LIMIT=1g"})) == "none");
  CHECK(firm(read_policy(Environment{"XLA_PYTHON_CLIENT_MEM_FRACTION=0.5"})) == "none");
  CHECK(firm(with_file("enforce CUDA_DEVICE_MEMORY_LIMIT=1g\n")) == "CUDA_DEVICE_MEMORY_LIMIT");
  CHECK(firm(read_policy(Environment{})) == "none");
}

TEST_CASE("what is enforced is shown beside what was asked for", "[config]") {
  const Policy policy =
      with_file("enforce CUBFC_MEM_LIMIT=20GiB\n", Environment{"CUBFC_MEM_LIMIT=5GiB"});
  const config::Option& option = *config::find_option("CUBFC_MEM_LIMIT");
  CHECK(config::in_force(option, policy) ==
        "5GiB (CUBFC_MEM_LIMIT); enforced: 20GiB (CUBFC_MEM_LIMIT in /etc/cubfc.conf)");
  CHECK(config::is_set(option, with_file("enforce CUBFC_MEM_LIMIT=20GiB\n")));
  CHECK_FALSE(config::is_set(option, read_policy(Environment{})));
}

TEST_CASE("no text of a policy file does any harm", "[config]") {
  const std::string text =
      "enforce CUBFC_MEM_LIMIT=20GiB\n\0CUBFC_FREE=\x1b[2J\nCUBFC_GROUP=\xff\nenforce=1\n=\n#";
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const Policy policy = with_file(text.substr(0, length));
    for (const std::string& warning : policy.warnings) {
      for (const char c : warning) {
        CHECK((c >= 0x20 && c < 0x7f));
      }
    }
  }
}

TEST_CASE("NVML shows a limit that the program sees, and a policy file's where that says so",
          "[config]") {
  const auto is_shown = [](const Policy& policy) {
    const auto limit = policy.hard_limit(80 * kGi);
    return limit && policy.is_shown_by_nvml(*limit);
  };
  CHECK(is_shown(read_policy(Environment{"CUBFC_MEM_LIMIT=8G"})));
  CHECK(is_shown(read_policy(Environment{"CUBFC_GROUP=g", "CUBFC_GROUP_LIMIT=8G"})));
  CHECK_FALSE(is_shown(read_policy(Environment{"XLA_CLIENT_MEM_FRACTION=0.5"})));
  CHECK_FALSE(is_shown(read_policy(Environment{"CUBFC_MEM_LIMIT=8G", "CUBFC_NVML=off"})));
  CHECK_FALSE(is_shown(read_policy(Environment{"CUBFC_MEM_LIMIT=x"})));
  // A monitor of the machine's is to see the truth.
  CHECK_FALSE(is_shown(with_file("CUBFC_MEM_LIMIT=8G\n")));
  CHECK_FALSE(is_shown(with_file("enforce CUBFC_MEM_LIMIT=8G\n")));
  CHECK(is_shown(with_file("enforce CUBFC_MEM_LIMIT=8G\nCUBFC_NVML=true\n")));
  CHECK(is_shown(with_file("enforce CUBFC_MEM_LIMIT=8G\n", Environment{"CUBFC_MEM_LIMIT=4G"})));
}

TEST_CASE("a container's limit that a policy file enforces is a group's that has none",
          "[config]") {
  const Policy policy =
      with_file("enforce NVIDIA_GPU_MEMORY_LIMIT=8192\nenforce NVIDIA_GPU_MEMORY_REQUEST=0\n",
                Environment{"CUBFC_GROUP=g"});
  CHECK_FALSE(policy.limit_unusable);
  CHECK(limit(policy) == 8 * kGi);
  CHECK(policy.group_limit.value.on(0, 80 * kGi) == 8 * kGi);
}
