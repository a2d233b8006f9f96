// Runs a program as a user would, with or without the preload, and keeps what it printed, how it
// ended and what the software driver counted. Knows paths and environments; nothing of what is
// expected. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cubfc::test {

using Environment = std::map<std::string, std::string>;

struct Outcome {
  int status = 0;  // exit code, or 128 + signal; 124 when it was stopped because it did not end
  std::string out;
  std::string err;
  std::map<std::string, std::uint64_t> driver_calls;  // by symbol; empty when there is no report
};

// Nothing is inherited but PATH, HOME and a UTF-8 locale; the driver is the software driver with 2
// GiB, and the runtime folder one of this test's own, unless the environment says otherwise.
Outcome run(const std::vector<std::string>& command, const Environment& environment = {});
Outcome run_preloaded(const std::vector<std::string>& command, Environment environment = {});

// A program that runs beside the test. Killed when this goes.
class Running {
 public:
  explicit Running(const std::vector<std::string>& command, const Environment& environment = {});
  ~Running();
  Running(Running&& other) noexcept;
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  Running& operator=(Running&&) = delete;

  pid_t pid() const;
  // Until it has printed this to stdout; throws when it has ended before.
  void wait_for(const std::string& text) const;
  // Waits until it has ended.
  Outcome finish();

 private:
  struct Started;
  std::unique_ptr<Started> started_;
};

// Starts all at once and waits for them.
std::vector<Outcome> run_together(const std::vector<std::vector<std::string>>& commands,
                                  const Environment& environment);

// LD_PRELOAD for the library under test: behind the sanitizer's runtime when it needs one, before
// `others`.
std::string preload(const std::string& others = {});

// A folder of this test's own that goes when the process ends.
std::string scratch(const std::string& name);

// Where processes that are started here find each other.
std::string runtime_folder();

// Whether the library under test is that of another build, with a sanitizer. The environment says
// so:
//   CUBFC_TEST_SANITIZER           the sanitizer's runtime
//   CUBFC_TEST_LIBRARY             the library, instead of this build's
//   CUBFC_TEST_PROGRAMS            the build folder whose programs are run, instead of this one's
inline const bool kSanitized = std::getenv("CUBFC_TEST_SANITIZER") != nullptr;

// A program or a library of tests/programs and of this folder, each by its file's name.
std::string program(const std::string& name);
std::string preload_program(const std::string& name);
// Where a file of this build lies: the build folder may have been carried to another machine.
std::string in_build(const std::string& path);

}  // namespace cubfc::test
