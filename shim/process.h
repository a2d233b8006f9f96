// cubfc in one process: the policy, and what acts on it. One object, made on first use, never
// destroyed: programs allocate and free until the very end of their exit.
#pragma once

#include <sys/types.h>

#include <string>

#include "config/policy.h"
#include "shim/device/contexts.h"
#include "shim/driver/captures.h"
#include "shim/driver/driver.h"
#include "shim/serve/device_memory.h"
#include "shim/serve/outside_memory.h"
#include "shim/serve/peer_copies.h"
#include "shim/serve/pointer_queries.h"
#include "shim/share/ipc.h"

namespace cubfc {

class Process {
 public:
  // The process's object if calls are to be intercepted; nullptr when they are to go straight to
  // the driver: CUBFC_DISABLE, a driver too old, or the child of a process that used CUDA before it
  // forked.
  static Process* active() noexcept;
  // False when nothing is intercepted at all (CUBFC_DISABLE). For the resolver; makes no driver
  // call.
  static bool intercepts() noexcept;

  // For tests: an object over a driver and a policy of the test's.
  Process(const DriverFunctions& driver, config::Policy policy);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  DeviceMemory& memory() { return memory_; }
  Ipc& ipc() { return ipc_; }
  PhysicalMemory& physical() { return physical_; }
  Arrays& arrays() { return arrays_; }
  PointerQueries& pointers() { return pointers_; }
  PeerCopies& peer_copies() { return peer_copies_; }
  Contexts& contexts() { return contexts_; }
  Captures& captures() { return captures_; }
  const DriverFunctions& driver() const { return driver_; }
  const config::Policy& policy() const { return policy_; }

  // The process that made the object.
  pid_t pid() const { return pid_; }

  // The lines of CUBFC_SHOW_STATS, one for each device. No driver call.
  std::string summary() const;

 private:
  static Process* make();
  static Process* make_one(const Driver& driver);
  static void forked_in_child() noexcept;

  const DriverFunctions& driver_;
  const config::Policy policy_;
  const pid_t pid_;
  Captures captures_{driver_};
  Contexts contexts_{driver_, policy_, captures_};
  Ipc ipc_{driver_, policy_, contexts_};
  DeviceMemory memory_{driver_, policy_, contexts_, captures_, ipc_};
  PhysicalMemory physical_{driver_, contexts_, memory_};
  Arrays arrays_{driver_, contexts_, memory_};
  PointerQueries pointers_{driver_, policy_, contexts_, ipc_};
  PeerCopies peer_copies_{driver_, contexts_};
};

}  // namespace cubfc
