// Tells the user of a request that failed for lack of memory.
#pragma once

#include <cstdint>

#include "arena/arena.h"
#include "config/policy.h"
#include "shim/tell/out_of_memory.h"

namespace cubfc {

class Contexts;
struct DriverFunctions;

// Thread-safe.
class FailedRequests {
 public:
  FailedRequests(const DriverFunctions& driver, const config::Policy& policy,
                 const Contexts& contexts)
      : driver_(driver), contexts_(contexts), reporter_(policy) {}

  struct Request {
    Device& device;
    std::uint64_t bytes;
    const char* function;  // as the program called it
    bool counted = true;   // whether the limit counts the memory
  };
  // `context`: whose arena was asked; nullptr when none was.
  void report(const Request& request, arena::Failure failure, Context* context) noexcept;
  // To be called with each request that the driver, or a context's arena, has served: a request
  // that failed before may have succeeded at another try. (take_at_hand() does not call this; it
  // serves nothing in a context that has the state kListenedTo.)
  void served(std::uint64_t bytes) noexcept {
    if (reporter_.listens()) [[unlikely]] {
      reporter_.served(bytes);
    }
  }
  void served(Context& context, std::uint64_t bytes) noexcept;
  // Called at the process's end.
  void finish() noexcept { reporter_.finish(); }

 private:
  void listen_no_longer_than_needed(Context& context) const noexcept;
  OutOfMemory find_out(const Request& request, arena::Failure failure, const Context* context,
                       OutOfMemoryReporter::Detail detail) const;

  const DriverFunctions& driver_;
  const Contexts& contexts_;
  OutOfMemoryReporter reporter_;
};

}  // namespace cubfc
