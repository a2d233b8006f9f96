// Tells the user of a request that failed for lack of memory.
#pragma once

#include <cstdint>

#include "arena/arena.h"
#include "config/policy.h"
#include "shim/tell/out_of_memory.h"

namespace cubfc {

class Contexts;
struct Context;
struct Device;
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
    bool counted = true;   // by the limit
  };
  // `context`: whose arena was asked; nullptr when none was.
  void report(const Request& request, arena::Failure failure, const Context* context) noexcept;

 private:
  OutOfMemory find_out(const Request& request, arena::Failure failure, const Context* context,
                       OutOfMemoryReporter::Detail detail) const;

  const DriverFunctions& driver_;
  const Contexts& contexts_;
  OutOfMemoryReporter reporter_;
};

}  // namespace cubfc
