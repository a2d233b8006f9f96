// All of cubfc in one process: the policy, and the objects that act on it. There is one Process,
// made at first use and never destroyed, since programs allocate and free until the very end of
// their exit.
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
class Sleeper;
class SoftReserve;
class StreamOrdered;
class TraceRecorder;
class UnusedMemory;
class WaitingFrees;

class Process {
 public:
  // The Process, made now if there is none yet. nullptr when calls must go straight to the driver:
  // with CUBFC_DISABLE, with a driver that is too old, in the child of a process that had a context
  // when it forked, before a driver is loaded, and when the host has no memory.
  static Process* active() noexcept {
    Process* const process = existing();
    return process != nullptr ? process : make_active();
  }
  // The Process if it has been made; else nullptr.
  static Process* existing() noexcept { return instance_.load(std::memory_order_acquire); }
  // Whether all requests for device memory, and for contexts, must fail: nothing can be intercepted
  // (old_driver.h), but a limit must be kept. Known once active() was called.
  static bool refuses_memory() noexcept;
  // Whether all calls of this process go straight to the driver. Known once active() was called.
  static bool stands_aside() noexcept;
  // Called when the program looks up a driver function. False with CUBFC_DISABLE: the program is
  // then to get the driver's own function, and not our wrapper. Makes no driver call.
  static bool intercepts() noexcept;
  // Whether the program's memory can be taken away while it is idle, so that its calls must pass
  // through gates (sleep/): CUBFC_SLEEP, in the library that can do it. Makes no driver call.
  static bool can_sleep() noexcept;

  // For cubfc_limit(): 0, or the error that it returns.
  static int set_limit(const char* limit) noexcept;

  // Whether another library that is preloaded behind this one defines these functions, too. If so,
  // our wrapper passes every call on, so that the library sees it.
  struct RuntimeOverrides {
    bool cuda_malloc = false;
    bool cuda_free = false;
  };
  // Called by make_one(). `driver` must outlive this object. Changes the policy if a tool watches
  // allocations (watching_tool()).
  Process(const DriverFunctions& driver, config::Policy policy, const RuntimeOverrides& overridden);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // The objects that act, one for each purpose: see its header.
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
  Sleeper& sleeper() const;

  const DriverFunctions& driver() const { return driver_; }
  const config::Policy& policy() const { return policy_; }
  const RuntimeOverrides& overridden() const { return overridden_; }

  // Whether this is a child of the process that made the object.
  bool is_in_child() const { return mark_.is_in_child(); }

  // The figures of what the program uses.
  const figures::ProcessFigures& figures() const;
  // Writes now those figures that are else written only now and then, such as the largest free
  // block.
  void refresh_figures() const noexcept;
  // See TimeInCalls::spent().
  std::chrono::nanoseconds time_in_calls() const;
  // The path of the summary that CUBFC_SUMMARY asks for; empty without one.
  const std::string& summary_path() const noexcept;
  // nullptr if nothing is recorded.
  TraceRecorder* trace() const noexcept;
  // Called at the very end of the process: removes the files in which others read the figures and
  // leave requests.
  void leave_files() const noexcept;

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
  // The parts that are asked most.
  Allocations& allocations_;
  Frees& frees_;
  Contexts& contexts_;
};

}  // namespace cubfc
