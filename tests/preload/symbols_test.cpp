// Symbol look-up of others is as it would be without the library.
#include "catch.h"
#include "preload/launch.h"

using namespace cubfc::test;

TEST_CASE("RTLD_NEXT and RTLD_DEFAULT of other libraries resolve as without us") {
  const std::vector<std::string> command{preload_program("look_ups")};
  for (const std::string& others : {std::string(), preload_program("libnext_library.so")}) {
    const Outcome bare = run(command, {{"LD_PRELOAD", others}});
    REQUIRE(bare.status == 0);
    const Outcome preloaded = run(command, {{"LD_PRELOAD", preload(others)}});
    CHECK(preloaded.out == bare.out);
    CHECK(preloaded.status == 0);
  }
}

TEST_CASE(
    "each of several runtimes keeps its own error, and who else overrides cudaMalloc its calls") {
  const std::vector<std::string> command{preload_program("two_runtimes")};
  for (const std::string& others : {std::string(), preload_program("liboverriding_library.so")}) {
    const Outcome bare = run(command, {{"LD_PRELOAD", others}});
    REQUIRE(bare.status == 0);
    REQUIRE(bare.out.find("the plugin allocates too much: 2") != std::string::npos);
    for (const char* allocator : {"bfc", "cuda_async", "platform"}) {
      INFO(allocator);
      // Behind us, and before us.
      for (const std::string& libraries : {preload(others), others + ":" + preload()}) {
        INFO(libraries);
        const Outcome preloaded =
            run(command, {{"LD_PRELOAD", libraries}, {"CUBFC_ALLOCATOR", allocator}});
        CHECK(preloaded.out == bare.out);
        CHECK(preloaded.status == 0);
      }
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("a tool that replaces the driver's functions in memory sees every call") {
  for (const char* look_up : {"in the driver", "behind"}) {
    for (const char* allocator : {"bfc", "vmm", "cuda_async", "platform"}) {
      INFO(look_up << ", " << allocator);
      const Outcome outcome =
          run_preloaded({preload_program("watched"), look_up}, {{"CUBFC_ALLOCATOR", allocator}});
      CHECK(outcome.out == "seen: 20 allocations, 20 frees\n");
      CHECK(outcome.status == 0);
    }
  }
}
#endif

TEST_CASE("a library that itself overrides dlsym coexists, before us and behind us") {
  const std::vector<std::string> command{program("program_dlopened_driver")};
  const std::string theirs = preload_program("libdlsym_library.so");
  const Outcome bare = run(command, {{"LD_PRELOAD", theirs}});
  REQUIRE(bare.status == 0);
  REQUIRE(bare.err.find("look-ups seen") != std::string::npos);
  if (kSanitized) {
    return;  // the order of the sanitizer's runtime is fixed
  }
  const Outcome we_first =
      run(command, {{"LD_PRELOAD", preload(theirs)}, {"CUBFC_SHOW_STATS", "1"}});
  CHECK(we_first.status == 0);
  CHECK(we_first.out == bare.out);
  CHECK(we_first.err.find("look-ups seen") != std::string::npos);
  CHECK(we_first.err.find(" driver calls; ") != std::string::npos);
  // It finds the C library's dlsym past ours: look-ups do not reach us, and nothing is served
  // wrongly.
  const Outcome they_first = run(command, {{"LD_PRELOAD", theirs + ":" + preload()}});
  CHECK(they_first.status == 0);
  CHECK(they_first.out == bare.out);
  CHECK(they_first.err.find("look-ups seen") != std::string::npos);
}

TEST_CASE("dlsym from many threads while libraries load does not deadlock") {
  const Outcome outcome = run_preloaded({preload_program("race")});
  INFO(outcome.err);
  CHECK(outcome.status == 0);
}
