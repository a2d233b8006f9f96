// Which of several names counts, and what the user is told.
#include <string>

#include "catch.h"
#include "config/environment.h"
#include "config/options.h"
#include "config/policy.h"

using cubfc::config::Allocator;
using cubfc::config::Environment;
using cubfc::config::FreeMode;
using cubfc::config::Policy;
using cubfc::config::read_policy;

namespace {

bool says(const std::string& line, const std::string& part) {
  return line.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a name of ours wins over theirs without a word", "[config]") {
  const Policy policy =
      read_policy(Environment{"XLA_PYTHON_CLIENT_PREALLOCATE=false", "CUBFC_PREALLOCATE=true",
                              "TF_FORCE_GPU_ALLOW_GROWTH=true"});
  CHECK(policy.preallocate.value == cubfc::config::Preallocate::kYes);
  CHECK(policy.preallocate.origin.variable == "CUBFC_PREALLOCATE");
  CHECK(policy.preallocate.origin.own_name);
  CHECK(policy.warnings.empty());
}

TEST_CASE("of two of their names the newer wins, with one warning when they disagree", "[config]") {
  const Policy policy =
      read_policy(Environment{"XLA_PYTHON_CLIENT_MEM_FRACTION=0.9", "XLA_CLIENT_MEM_FRACTION=0.5"});
  CHECK(policy.mem_fraction.value->start == 0.5);
  CHECK(policy.mem_fraction.origin.variable == "XLA_CLIENT_MEM_FRACTION");
  CHECK_FALSE(policy.mem_fraction.origin.own_name);
  REQUIRE(policy.warnings.size() == 1);
  CHECK(policy.warnings[0] ==
        "XLA_CLIENT_MEM_FRACTION=\"0.5\" and XLA_PYTHON_CLIENT_MEM_FRACTION=\"0.9\" disagree, and "
        "the "
        "newer name counts; in force: 0.5 (XLA_CLIENT_MEM_FRACTION=0.5)");
}

TEST_CASE("two of their names that mean the same do not disagree", "[config]") {
  CHECK(
      read_policy(Environment{"XLA_CLIENT_MEM_FRACTION=0.5", "XLA_PYTHON_CLIENT_MEM_FRACTION=50%"})
          .warnings.empty());
  CHECK(read_policy(
            Environment{"XLA_PYTHON_CLIENT_PREALLOCATE=false", "TF_FORCE_GPU_ALLOW_GROWTH=true"})
            .warnings.empty());
  CHECK(read_policy(
            Environment{"XLA_PYTHON_CLIENT_ALLOCATOR=platform", "TF_GPU_ALLOCATOR=cuda_malloc"})
            .warnings.empty());
  CHECK(read_policy(
            Environment{"XLA_PYTHON_CLIENT_PREALLOCATE=true", "TF_FORCE_GPU_ALLOW_GROWTH=true"})
            .warnings.size() == 1);
}

TEST_CASE("an empty value is as good as none", "[config]") {
  const Policy policy =
      read_policy(Environment{"CUBFC_MEM_LIMIT=", "CUBFC_MEM_FRACTION=  ", "CUBFC_PREALLOCATE=\t",
                              "XLA_PYTHON_CLIENT_PREALLOCATE=false"});
  CHECK_FALSE(policy.limit_unusable);
  CHECK_FALSE(policy.mem_limit.is_set());
  CHECK(policy.preallocate.value == cubfc::config::Preallocate::kNo);
  CHECK(policy.warnings.empty());
}

TEST_CASE(
    "a bad value gets one warning with the name, the value, what is accepted and what is in force",
    "[config]") {
  const Policy policy = read_policy(Environment{"CUBFC_PREALLOCATE=maybe"});
  CHECK(policy.preallocate.value == cubfc::config::Preallocate::kSoft);
  CHECK_FALSE(policy.preallocate.is_set());
  REQUIRE(policy.warnings.size() == 1);
  CHECK(policy.warnings[0] ==
        "CUBFC_PREALLOCATE=\"maybe\" cannot be used; accepted: soft, true, false (also 1/0, "
        "yes/no, on/off) or whole; in force: soft (default)");
}

TEST_CASE("after a bad value of ours the next name counts, and the warning says so", "[config]") {
  const Policy policy =
      read_policy(Environment{"CUBFC_PREALLOCATE=maybe", "TF_FORCE_GPU_ALLOW_GROWTH=1"});
  CHECK(policy.preallocate.value == cubfc::config::Preallocate::kNo);
  REQUIRE(policy.warnings.size() == 1);
  CHECK(says(policy.warnings[0], "in force: false (TF_FORCE_GPU_ALLOW_GROWTH=1)"));
}

TEST_CASE("each bad value has its own warning", "[config]") {
  const Policy policy = read_policy(Environment{
      "CUBFC_FREE=later", "CUBFC_LOG_LEVEL=loud", "CUBFC_RESERVE=-1", "XLA_CLIENT_MEM_FRACTION=nan",
      "TF_GPU_ALLOCATOR=bfc", "TF_DEVICE_MIN_SYS_MEMORY_IN_MB=1.5", "CUBFC_DISABLE=2",
      "JAX_PREALLOCATION_SIZE_LIMIT_BYTES=1e9"});
  CHECK(policy.warnings.size() == 8);
  for (const std::string& line : policy.warnings) {
    INFO(line);
    CHECK(says(line, "accepted: "));
    CHECK(says(line, "in force: "));
    CHECK(line.find('\n') == std::string::npos);
  }
}

TEST_CASE("asking for what is in force anyway is no reason to warn", "[config]") {
  const Policy policy = read_policy(
      Environment{"CUBFC_ALLOCATOR=bfc", "CUBFC_FREE=sync", "CUBFC_UNIFIED_MEMORY=false",
                  "CUBFC_ASYNC_PREALLOCATE=0", "TF_FORCE_UNIFIED_MEMORY=0"});
  CHECK(policy.warnings.empty());
}

TEST_CASE("a value that is nearly right cannot be used", "[config]") {
  for (const char* entry : {"CUBFC_UNIFIED_MEMORY=perhaps", "CUBFC_ASYNC_PREALLOCATE=-2",
                            "CUBFC_FREE=defer", "CUBFC_ALLOCATOR=vm", "CUBFC_LOG_FILE=ab"}) {
    const Policy policy = read_policy(Environment{entry});
    INFO(entry);
    REQUIRE(policy.warnings.size() == 1);
    CHECK(says(policy.warnings[0], "cannot be used; accepted: "));
  }
}

TEST_CASE("a mistyped name of ours gets one warning with the nearest known name", "[config]") {
  struct Case {
    const char* name;
    const char* nearest;
  };
  for (const Case& each :
       {Case{"CUBFC_MEM_FRACTOIN", "CUBFC_MEM_FRACTION"}, Case{"CUBFC_MEMLIMIT", "CUBFC_MEM_LIMIT"},
        Case{"CUBFC_ALOCATOR", "CUBFC_ALLOCATOR"}, Case{"CUBFC_PREALOCATE", "CUBFC_PREALLOCATE"},
        Case{"CUBFC_LOGLEVEL", "CUBFC_LOG_LEVEL"}, Case{"CUBFC_DISABLED", "CUBFC_DISABLE"}}) {
    const Policy policy = read_policy(Environment{std::string(each.name) + "=1"});
    INFO(each.name);
    REQUIRE(policy.warnings.size() == 1);
    CHECK(policy.warnings[0] ==
          std::string(each.name) +
              " is not an option of cubfc and has no effect; the nearest known name is " +
              each.nearest);
  }
}

TEST_CASE("their unknown names are none of our business", "[config]") {
  CHECK(read_policy(Environment{"XLA_FLAGS=--x", "TF_GPU_ALOCATOR=x", "JAX_PLATFORMS=cpu",
                                "XLA_PYTHON_CLIENT_MEM_FRACTIO=7", "CUDA_VISIBLE_DEVICES=0"})
            .warnings.empty());
}

TEST_CASE("a hostile value reaches the warning escaped and shortened", "[config]") {
  const Policy policy =
      read_policy(Environment{"CUBFC_FREE=a\nFATAL: all is lost\x1b[2J",
                              "CUBFC_RESERVE=" + std::string(100000, 'x'), "CUBFC_X\ny=1"});
  REQUIRE(policy.warnings.size() == 3);
  for (const std::string& line : policy.warnings) {
    CHECK(line.size() < 400);
    CHECK(line.find('\n') == std::string::npos);
    CHECK(line.find('\x1b') == std::string::npos);
  }
}
