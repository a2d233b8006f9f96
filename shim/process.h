// cubfc in one process: the policy, and what acts on it. One object, made on first use, never
// destroyed: programs allocate and free until the very end of their exit.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "config/policy.h"
#include "shim/driver/driver.h"
#include "shim/loader/fork_mark.h"

namespace cubfc {

namespace figures {
struct ProcessFigures;
}
class Allocations;
class Arrays;
class Captures;
class Contexts;
class DriverRequests;
class FailedRequests;
class Frees;
class GraphMemory;
class Ipc;
class MemoryInfo;
class MemorySources;
class PeerCopies;
class PhysicalMemory;
class PointerQueries;
class SoftReserve;
class StreamOrdered;
class TraceRecorder;
class UnusedMemory;
class WaitingFrees;

class Process {
 public:
  // The process's object if calls are to be intercepted; nullptr when they are to go straight to
  // the driver: CUBFC_DISABLE, a driver too old, or the child of a process that used CUDA before it
  // forked.
  static Process* active() noexcept {
    Process* const process = existing();
    return process != nullptr ? process : make_active();
  }
  // The same, but it is not made.
  static Process* existing() noexcept { return instance_.load(std::memory_order_acquire); }
  // Nothing can be intercepted, but a limit is to be kept: nobody gets device memory, nor a context
  // in which to ask for it. Known once active() was called.
  static bool refuses_memory() noexcept;
  // All calls go straight to the driver, from the first one on that had to decide.
  static bool stands_aside() noexcept;
  // False when nothing is intercepted at all (CUBFC_DISABLE). For the resolver; makes no driver
  // call.
  static bool intercepts() noexcept;

  // For cubfc_limit(): 0, or the error that it returns.
  static int set_limit(const char* limit) noexcept;

  // Whether another library, preloaded behind this one, defines these functions, too: then it is to
  // see every call, and our wrapper passes them on.
  struct RuntimeOverrides {
    bool cuda_malloc = false;
    bool cuda_free = false;
  };
  // For make_one(). `driver` must outlive it. A tool that watches allocations may change the
  // policy.
  Process(const DriverFunctions& driver, config::Policy policy, const RuntimeOverrides& overridden);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // What acts, one object for each purpose (see each one's header).
  Allocations& allocations() const { return allocations_; }
  Frees& frees() const { return frees_; }
  Contexts& contexts() const { return contexts_; }
  Captures& captures() const;
  Ipc& ipc() const;
  WaitingFrees& waiting() const;
  UnusedMemory& unused() const;
  const MemorySources& sources() const;
  DriverRequests& requests() const;
  StreamOrdered& stream_ordered() const;
  GraphMemory& graph_memory() const;
  MemoryInfo& info() const;
  PhysicalMemory& physical() const;
  Arrays& arrays() const;
  PointerQueries& pointers() const;
  PeerCopies& peer_copies() const;
  FailedRequests& failed_requests() const;
  SoftReserve& soft_reserve() const;

  const DriverFunctions& driver() const { return driver_; }
  const config::Policy& policy() const { return policy_; }
  const RuntimeOverrides& overridden() const { return overridden_; }

  // Whether this is a child of the process that made the object.
  bool is_in_child() const { return mark_.is_in_child(); }

  // What the program uses.
  const figures::ProcessFigures& figures() const;
  // Of these some are written now and then only, such as the largest free block: now they are.
  void refresh_figures() const noexcept;
  // See TimeInCalls::spent().
  std::chrono::nanoseconds time_in_calls() const;
  // Where CUBFC_SUMMARY asks for it; empty where it does not.
  const std::string& summary_path() const noexcept;
  // nullptr if nothing is recorded.
  TraceRecorder* trace() const noexcept;
  // At the very end: nobody is to read them any more.
  void leave_figures() const noexcept;

 private:
  static Process* make_active() noexcept;
  static Process* make();
  static Process* make_one(const Driver& driver, const RuntimeOverrides& overridden);
  static void forked_in_child() noexcept;

  static inline std::atomic<Process*> instance_{nullptr};

  const DriverFunctions& driver_;
  const config::Policy policy_;
  const RuntimeOverrides overridden_;
  const ForkMark mark_;
  struct Parts;
  const std::unique_ptr<Parts> parts_;
  // Of the parts: what is asked most.
  Allocations& allocations_;
  Frees& frees_;
  Contexts& contexts_;
};

}  // namespace cubfc
