// What was witnessed in one process, and the line of JSON that says it. Knows nothing of CUPTI.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "caller.h"

namespace witness {

/// Made once in a process and never destroyed: threads may allocate until its very end.
class Record {
 public:
  explicit Record(std::string path);

  /// A call of `function`, a name that stays for ever. Any thread; no allocation, no lock.
  void count(const char* function, const Finding& finding) noexcept;

  /// Appends the line, once, and only in the process that made the record: not in a fork's child.
  /// What goes wrong with the file is not said.
  void write() noexcept;

  /// Appends the line of a process in which nothing could be witnessed.
  static void write_error(const std::string& path, const std::string& error);

 private:
  struct Function {
    std::atomic<const char*> name{nullptr};
    std::array<std::atomic<std::uint64_t>, kCallers> calls{};
  };
  struct KeptStack {
    std::atomic<bool> complete{false};
    const char* function = nullptr;
    Finding finding;
  };

  Function* function_named(const char* name) noexcept;
  std::string line() const;

  const std::string path_;
  const pid_t pid_;
  std::atomic<bool> written_{false};
  std::array<Function, 64> functions_;  // more than there are with all their suffixes
  std::array<KeptStack, 8> stacks_;     // of the first calls that cubfc did not make
  std::atomic<std::size_t> stacks_begun_{0};
};

}  // namespace witness
