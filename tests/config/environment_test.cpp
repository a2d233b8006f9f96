// What is copied from a process's environment, and how it is looked up.
#include "config/environment.h"

#include <string>
#include <vector>

#include "catch.h"

using cubfc::config::Environment;
using cubfc::config::is_our_entry;
using cubfc::config::is_ours;
using cubfc::config::kHonouredNames;

TEST_CASE("every name of ours and every honoured name is copied at load", "[config]") {
  for (const std::string_view name : kHonouredNames) {
    CHECK(is_ours(name));
    CHECK(is_our_entry((std::string(name) + "=1").c_str()));
  }
  for (const std::string_view name : cubfc::config::kKnownNames) {
    CHECK(is_ours(name));
    CHECK(is_our_entry((std::string(name) + "=1").c_str()));
  }
  CHECK(is_ours("CUBFC_MEM_LIMIT"));
  CHECK(is_ours("CUBFC_MISTYPED"));
  CHECK(is_our_entry("CUBFC_MEM_LIMIT=8G"));
  static_assert(is_ours("CUBFC_FREE"));
}

TEST_CASE("a variable that concerns somebody else is not copied", "[config]") {
  for (const char* name : {"", "C", "CUDA_VISIBLE_DEVICES", "CUBF", "cubfc_mem_limit", "PATH",
                           "XLA_FLAG", "TF_CPP_MIN_LOG_LEVEL", "JAX_PLATFORMS",
                           "XLA_CLIENT_MEM_FRACTION_", "XLA_CLIENT_MEM_FRACTIO", "T", "X", "J", "N",
                           "P", "PWD", "NVIDIA_VISIBLE_DEVICES", "PYTHONPATH"}) {
    INFO(name);
    CHECK_FALSE(is_ours(name));
    CHECK_FALSE(is_our_entry((std::string(name) + "=1").c_str()));
  }
  CHECK_FALSE(is_our_entry(nullptr));
  CHECK_FALSE(is_our_entry(""));
  CHECK_FALSE(is_our_entry("="));
}

TEST_CASE("a value may contain an equals sign or be empty", "[config]") {
  const Environment environment{"CUBFC_LOG_FILE=/tmp/a=b", "CUBFC_LOG_LEVEL="};
  CHECK(environment.lookup("CUBFC_LOG_FILE") == "/tmp/a=b");
  CHECK(environment.lookup("CUBFC_LOG_LEVEL") == "");
  CHECK(environment.lookup("CUBFC_FREE") == std::nullopt);
}

TEST_CASE("of two variables with one name the first counts, as for getenv", "[config]") {
  const Environment environment{"CUBFC_FREE=sync", "CUBFC_FREE=deferred"};
  CHECK(environment.lookup("CUBFC_FREE") == "sync");
  CHECK(environment.names().size() == 1);
}

TEST_CASE("a string that is no variable is left out", "[config]") {
  const std::vector<std::string> entries = {"", "=", "=x", "CUBFC_FREE", "CUBFC_RESERVE=1G"};
  const Environment environment{std::span<const std::string>(entries)};
  CHECK(environment.names() == std::vector<std::string_view>{"CUBFC_RESERVE"});
}
