// Reads the environment variables that concern cubfc, as they were when the library was loaded:
// later changes by the program have no effect. Makes the policy from these variables and the policy
// file. Also knows the variables that tools which watch allocations set.
#pragma once

#include <sys/types.h>

#include "config/policy.h"

namespace cubfc {

// The policy of this process. It is read at the first call, so that a program that never uses CUDA
// does not pay for that, and is never destroyed. Thread-safe; makes no CUDA call. Throws
// std::bad_alloc.
const config::Policy& policy_of_process();

// Called by Process::set_limit(), before the Process is made. Makes the policy anew, as if
// CUBFC_MEM_LIMIT had had this value when the library was loaded. Returns false, and changes
// nothing, if the value is no limit. No other thread may make the Process meanwhile. Threads that
// read the old policy may go on with it: it is not destroyed. Throws std::bad_alloc.
bool set_limit_of_process(const char* limit);

// The process id of the `cubfc run` that started this process or an ancestor of it; 0 without one.
// Thread-safe.
pid_t run_of_process() noexcept;
// Whether another process has forked this one since the program was executed. Thread-safe.
bool is_forked_process() noexcept;
// Whether this is the very process that `cubfc run` became: not its child. Thread-safe.
bool is_process_of_run() noexcept;

// The name of a variable, set at this moment, by which a tool says that it watches allocations;
// nullptr if there is none. Such a tool sees overruns of a block only if the block is an allocation
// of the driver's own. The name is a literal.
const char* watching_tool() noexcept;

}  // namespace cubfc
