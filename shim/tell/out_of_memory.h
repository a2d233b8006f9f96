// The report of an allocation that failed for lack of memory: what was asked, who holds what, why,
// and what would help. All that it says is handed to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "config/policy.h"
#include "shim/tell/failure_cause.h"

namespace cubfc {

struct OutOfMemory {
  int device;
  const char* function;  // as the program called it
  FailedRequestFacts facts;

  arena::Stats stats;  // of the arena that was asked, or that holds most of the device
  std::vector<arena::BlockSnapshot> blocks;  // of that arena
  struct Part {
    std::uint64_t bytes;
    const char* what;
  };
  std::vector<Part> outside;  // what the program holds beside arenas
};

// Writes the reports. Thread-safe. Programs that find out by trying how much there is fail again
// and again: a full report comes at most once a minute. What can never be had, and what fails
// between two reports, gets a line: the first at once, each next one after twice the time, up to a
// minute.
class OutOfMemoryReporter {
 public:
  explicit OutOfMemoryReporter(const config::Policy& policy) : policy_(policy) {}

  // Finds out what there is to say; with kAll also the blocks. Called when something is due, on
  // this thread.
  enum class Detail : bool { kFacts, kAll };
  void report(const std::function<OutOfMemory(Detail)>& find_out) noexcept;

 private:
  const config::Policy& policy_;
  std::atomic<std::int64_t> next_full_ns_{0};  // of the steady clock
  std::atomic<std::int64_t> next_line_ns_{0};
  std::atomic<std::int64_t> pause_ns_{0};  // between two lines
  std::atomic<std::uint64_t> unreported_{0};
};

// The blocks of an arena drawn in `columns` characters: '*' in use, 'x' partly, '_' free.
std::string draw_map(const std::vector<arena::BlockSnapshot>& blocks, std::size_t columns);

}  // namespace cubfc
