// The report of an allocation that failed for lack of memory: what was asked, who holds what, why,
// and what would help.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "arena/arena.h"
#include "config/policy.h"
#include "shim/device/contexts.h"

namespace cubfc {

// Thread-safe. Programs retry: after a report, one line a second at most until five seconds are
// over.
class OutOfMemoryReporter {
 public:
  // `context`: whose arena was asked; nullptr when none was. `function` as the program called it.
  void report(const DriverFunctions& driver, const config::Policy& policy, const Contexts& contexts,
              const Device& device, const Context* context, const char* function,
              std::uint64_t bytes, arena::Failure failure) noexcept;

 private:
  std::atomic<std::int64_t> last_full_ns_{0};
  std::atomic<std::int64_t> last_line_ns_{0};
  std::atomic<std::uint64_t> unreported_{0};
};

// The blocks of an arena drawn in `columns` characters: '*' in use, 'x' partly, '_' free.
std::string draw_map(const std::vector<arena::BlockSnapshot>& blocks, std::size_t columns);

}  // namespace cubfc
