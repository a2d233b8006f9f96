// The report of an allocation that failed for lack of memory: what was asked, who holds what, why,
// and what would help. All that it says is handed to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "config/policy.h"

namespace cubfc {

// Sizes are bytes.
struct OutOfMemory {
  int device;
  const char* function;  // as the program called it
  std::uint64_t asked;
  arena::Failure failure;
  arena::Stats stats;  // of the arena that was asked, or that holds most of the device

  // All below only for the full report.
  std::vector<arena::BlockSnapshot> blocks;  // of that arena
  struct Limit {
    std::uint64_t bytes;
    std::uint64_t taken;
  };
  std::optional<Limit> limit;
  struct Part {
    std::uint64_t bytes;
    const char* what;
  };
  std::vector<Part> outside;  // what the program holds beside arenas
  struct DeviceNow {
    std::uint64_t total;
    std::uint64_t free;
    std::uint64_t ours;  // in all arenas of the process and beside them
  };
  std::optional<DeviceNow> now;  // if the driver tells
};

// Writes the reports. Thread-safe. Programs retry, so a full report comes at most every 5 seconds;
// between two, one line at most each second says that memory ran out again.
class OutOfMemoryReporter {
 public:
  explicit OutOfMemoryReporter(const config::Policy& policy) : policy_(policy) {}

  // `complete` adds what only the full report needs; it is called when that is due, on this thread.
  void report(OutOfMemory&& failure, const std::function<void(OutOfMemory&)>& complete) noexcept;

 private:
  const config::Policy& policy_;
  std::atomic<std::int64_t> last_full_ns_{0};
  std::atomic<std::int64_t> last_line_ns_{0};
  std::atomic<std::uint64_t> unreported_{0};
};

// The blocks of an arena drawn in `columns` characters: '*' in use, 'x' partly, '_' free.
std::string draw_map(const std::vector<arena::BlockSnapshot>& blocks, std::size_t columns);

}  // namespace cubfc
