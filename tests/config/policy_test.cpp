// What is in force for a device, given what was asked for.
#include "config/policy.h"

#include <cstdint>
#include <limits>
#include <string>

#include "catch.h"
#include "config/environment.h"

using cubfc::config::Environment;
using cubfc::config::HardLimit;
using cubfc::config::Policy;
using cubfc::config::read_policy;

namespace {
constexpr std::uint64_t kGi = std::uint64_t{1} << 30U;

std::optional<std::uint64_t> bytes(const std::optional<HardLimit>& limit) {
  return limit ? std::optional(limit->bytes) : std::nullopt;
}

bool is_seen(const Policy& policy) {
  const auto limit = policy.hard_limit(80 * kGi);
  return limit && limit->is_seen();
}
}  // namespace

TEST_CASE("with nothing set nothing is limited and 0.75 of the free memory is preallocated",
          "[config]") {
  const Policy policy = read_policy(Environment{});
  CHECK(policy.warnings.empty());
  CHECK_FALSE(policy.limit_unusable);
  CHECK_FALSE(policy.hard_limit(80 * kGi).has_value());
  CHECK_FALSE(policy.limits());
  CHECK_FALSE(is_seen(policy));
  CHECK(policy.preallocation(40 * kGi, 80 * kGi) == 30 * kGi);
  CHECK(policy.beyond_reserve(40 * kGi) == 40 * kGi);
}

TEST_CASE("a fraction preallocates of the free memory and limits to that share of the total",
          "[config]") {
  const Policy policy = read_policy(Environment{"CUBFC_MEM_FRACTION=0.5"});
  CHECK(bytes(policy.hard_limit(80 * kGi)) == 40 * kGi);
  CHECK(policy.preallocation(60 * kGi, 80 * kGi) == 30 * kGi);
  CHECK(is_seen(policy));
  REQUIRE(policy.hard_limit(kGi).has_value());
  CHECK(policy.hard_limit(kGi)->origin->text() == "CUBFC_MEM_FRACTION");
}

TEST_CASE("the preallocation can be a share of the total, but never more than is free",
          "[config]") {
  const Policy policy =
      read_policy(Environment{"CUBFC_MEM_FRACTION=0.5", "CUBFC_MEM_FRACTION_OF=total"});
  CHECK(policy.preallocation(60 * kGi, 80 * kGi) == 40 * kGi);
  CHECK(policy.preallocation(30 * kGi, 80 * kGi) == 30 * kGi);
}

TEST_CASE("a limit as a size wins over a fraction and is never above the device", "[config]") {
  const Policy policy = read_policy(Environment{"CUBFC_MEM_LIMIT=10GiB", "CUBFC_MEM_FRACTION=0.5"});
  CHECK(bytes(policy.hard_limit(80 * kGi)) == 10 * kGi);
  CHECK(bytes(policy.hard_limit(8 * kGi)) == 8 * kGi);
  CHECK(policy.hard_limit(kGi)->origin->variable == "CUBFC_MEM_LIMIT");
  CHECK(policy.preallocation(80 * kGi, 80 * kGi) == 10 * kGi);
}

TEST_CASE("a limit under another project's name limits but leaves the reported total alone",
          "[config]") {
  for (const char* entry : {"XLA_CLIENT_MEM_FRACTION=0.5", "XLA_PYTHON_CLIENT_MEM_FRACTION=.5"}) {
    const Policy policy = read_policy(Environment{entry});
    INFO(entry);
    CHECK(bytes(policy.hard_limit(80 * kGi)) == 40 * kGi);
    CHECK_FALSE(is_seen(policy));
    CHECK(policy.hard_limit(kGi)->origin->text() == entry);
  }
}

TEST_CASE("CUBFC_MEM_LIMIT is reported even when the fraction is another project's", "[config]") {
  const Policy policy =
      read_policy(Environment{"CUBFC_MEM_LIMIT=10G", "XLA_CLIENT_MEM_FRACTION=0.5"});
  CHECK(is_seen(policy));
  CHECK(policy.preallocation(80 * kGi, 80 * kGi) == 10 * kGi);
}

TEST_CASE("XLA's newer forms start with one share and are limited by the other or by none",
          "[config]") {
  const Policy grows = read_policy(Environment{"XLA_CLIENT_MEM_FRACTION=0.5+"});
  CHECK(grows.preallocation(80 * kGi, 80 * kGi) == 40 * kGi);
  CHECK_FALSE(grows.hard_limit(80 * kGi).has_value());
  CHECK_FALSE(grows.limits());
  const Policy range = read_policy(Environment{"XLA_CLIENT_MEM_FRACTION=0.25-0.5"});
  CHECK(range.preallocation(80 * kGi, 80 * kGi) == 20 * kGi);
  CHECK(bytes(range.hard_limit(80 * kGi)) == 40 * kGi);
}

TEST_CASE("the preallocation keeps to its own limit, the reserve and the hard limit at once",
          "[config]") {
  CHECK(read_policy(Environment{"CUBFC_PREALLOCATE_LIMIT=8G"}).preallocation(80 * kGi, 80 * kGi) ==
        8 * kGi);
  CHECK(read_policy(Environment{"CUBFC_PREALLOCATE_LIMIT=0"}).preallocation(80 * kGi, 80 * kGi) ==
        0);
  CHECK(read_policy(Environment{"JAX_PREALLOCATION_SIZE_LIMIT_BYTES=1073741824"})
            .preallocation(80 * kGi, 80 * kGi) == kGi);
  const Policy reserve = read_policy(Environment{"CUBFC_RESERVE=70G"});
  CHECK(reserve.preallocation(80 * kGi, 80 * kGi) == 10 * kGi);
  CHECK(reserve.preallocation(60 * kGi, 80 * kGi) == 0);
  CHECK(reserve.beyond_reserve(75 * kGi) == 5 * kGi);
  CHECK(reserve.beyond_reserve(60 * kGi) == 0);
  CHECK(read_policy(Environment{"TF_DEVICE_MIN_SYS_MEMORY_IN_MB=1024"}).reserve.value == kGi);
  // Nothing of this limits growth.
  CHECK_FALSE(reserve.hard_limit(80 * kGi).has_value());
}

TEST_CASE("without preallocation nothing is taken at first, and the limit stays", "[config]") {
  for (const char* entry : {"CUBFC_PREALLOCATE=false", "XLA_PYTHON_CLIENT_PREALLOCATE=false",
                            "TF_FORCE_GPU_ALLOW_GROWTH=true"}) {
    const Policy policy = read_policy(Environment{entry, "CUBFC_MEM_FRACTION=0.5"});
    INFO(entry);
    CHECK(policy.preallocation(80 * kGi, 80 * kGi) == 0);
    CHECK(bytes(policy.hard_limit(80 * kGi)) == 40 * kGi);
  }
}

TEST_CASE("beside XLA's runtime only cubfc's own names limit and choose", "[config]") {
  const Policy theirs = read_policy(
      Environment{"XLA_PYTHON_CLIENT_MEM_FRACTION=0.5", "XLA_PYTHON_CLIENT_ALLOCATOR=platform",
                  "XLA_PYTHON_CLIENT_PREALLOCATE=false", "TF_FORCE_UNIFIED_MEMORY=1"});
  CHECK(theirs.limits());
  const Policy beside = theirs.beside_xla();
  CHECK_FALSE(beside.limits());
  CHECK_FALSE(beside.hard_limit(80 * kGi).has_value());
  CHECK(beside.allocator.value == cubfc::config::Allocator::kBfc);
  CHECK_FALSE(beside.unified_memory.value);
  CHECK(beside.preallocate.value == cubfc::config::Preallocate::kNo);
  const Policy ours = read_policy(
      Environment{"CUBFC_MEM_FRACTION=0.5", "CUBFC_ALLOCATOR=vmm", "XLA_CLIENT_MEM_FRACTION=0.9"});
  CHECK(bytes(ours.beside_xla().hard_limit(80 * kGi)) == 40 * kGi);
  CHECK(ours.beside_xla().allocator.value == cubfc::config::Allocator::kVmm);
}

TEST_CASE("a limit of ours that cannot be used refuses every device allocation and says why",
          "[config]") {
  for (const char* entry :
       {"CUBFC_MEM_LIMIT=8Q", "CUBFC_MEM_LIMIT=0", "CUBFC_MEM_LIMIT=-1", "CUBFC_MEM_LIMIT=0%",
        "CUBFC_MEM_LIMIT=101%", "CUBFC_MEM_LIMIT=0.8", "CUBFC_GROUP_LIMIT=200%",
        "CUBFC_MEM_FRACTION=50", "CUBFC_MEM_FRACTION=0", "CUBFC_MEM_FRACTION=1.01",
        "CUBFC_MEM_FRACTION=nan", "CUBFC_MEM_FRACTION=0.75+", "CUBFC_MEM_FRACTION=half"}) {
    const Policy policy = read_policy(Environment{entry, "XLA_CLIENT_MEM_FRACTION=0.5"});
    INFO(entry);
    CHECK(policy.limit_unusable);
    CHECK(bytes(policy.hard_limit(80 * kGi)) == 0U);
    CHECK(policy.preallocation(80 * kGi, 80 * kGi) == 0);
    const std::string name = std::string(entry).substr(0, std::string(entry).find('='));
    CHECK(policy.limit_explanation.find(name) != std::string::npos);
    CHECK(policy.limit_explanation.find("no device memory is given") != std::string::npos);
    CHECK(policy.limit_explanation.find("accepted: ") != std::string::npos);
    CHECK(policy.warnings.empty());  // each thing is said once
  }
}

TEST_CASE("a limit of another project's that cannot be used warns, and the default is in force",
          "[config]") {
  const Policy policy = read_policy(Environment{"XLA_CLIENT_MEM_FRACTION=100"});
  CHECK_FALSE(policy.limit_unusable);
  CHECK_FALSE(policy.hard_limit(80 * kGi).has_value());
  CHECK(policy.preallocation(80 * kGi, 80 * kGi) == 60 * kGi);
  CHECK(policy.warnings.size() == 1);
}

TEST_CASE("the arithmetic holds at the edges of 64 bits", "[config]") {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const Policy whole = read_policy(Environment{"CUBFC_MEM_FRACTION=1"});
  CHECK(bytes(whole.hard_limit(kMost)) == kMost);
  CHECK(whole.preallocation(kMost, kMost) == kMost);
  CHECK(whole.preallocation(0, 0) == 0);
  CHECK(
      read_policy(Environment{"CUBFC_RESERVE=18446744073709551615"}).preallocation(kMost, kMost) ==
      0);
  CHECK(bytes(read_policy(Environment{"CUBFC_MEM_LIMIT=1"}).hard_limit(kMost)) == 1U);
}

TEST_CASE("with unified memory in force a share above 1 is more than the device has", "[config]") {
  Policy policy;
  policy.unified_memory.value = true;
  policy.mem_fraction.value = {.start = 4.0, .limit = 4.0};
  CHECK(bytes(policy.hard_limit(80 * kGi)) == 320 * kGi);
  CHECK(policy.preallocation(80 * kGi, 80 * kGi) == 320 * kGi);
}

TEST_CASE("what is not in use is for others, unless memory is to be held", "[config]") {
  CHECK(read_policy(Environment{}).gives_to_others());
  for (const char* soft : {"CUBFC_PREALLOCATE=false", "CUBFC_MEM_LIMIT=1G",
                           "TF_FORCE_GPU_ALLOW_GROWTH=true", "CUBFC_ALLOCATOR=vmm"}) {
    INFO(soft);
    CHECK(read_policy(Environment{soft}).gives_to_others());
  }
  for (const char* firm : {"CUBFC_PREALLOCATE=true", "CUBFC_PREALLOCATE=whole",
                           "CUBFC_MEM_FRACTION=0.5", "XLA_CLIENT_MEM_FRACTION=0.5",
                           "TF_FORCE_GPU_ALLOW_GROWTH=false", "CUBFC_ASYNC_PREALLOCATE=1G"}) {
    INFO(firm);
    CHECK_FALSE(read_policy(Environment{firm}).gives_to_others());
  }
}
