// The variables that ask cubfc for something, as they were when the library was loaded: what the
// program sets later changes nothing. With them, the policy file. And those by which a tool that
// watches allocations is known.
#pragma once

#include <sys/types.h>

#include "config/policy.h"

namespace cubfc {

// The policy, read at the first call (a program that never uses CUDA makes none), never destroyed.
// Thread-safe; makes no CUDA call. Throws std::bad_alloc.
const config::Policy& policy_of_process();

// Sets CUBFC_MEM_LIMIT, as if the environment had had it when the library was loaded, and reads the
// policy again. False, and nothing has changed, where no device memory could be given under that
// limit. Nobody may make an object of the policy meanwhile; who reads it goes on with the old one.
// Throws std::bad_alloc.
bool set_limit_of_process(const char* limit);

// The process id of the `cubfc run` that this process comes from; 0 without one. Thread-safe.
pid_t run_of_process() noexcept;
// Whether another process has forked this one since the program was executed. Thread-safe.
bool is_forked_process() noexcept;
// Whether this is the very process that `cubfc run` became: not its child. Thread-safe.
bool is_process_of_run() noexcept;

// The variable, as it is now, that says that a tool watches allocations; nullptr if none does. Such
// a tool sees overruns of blocks only when each is an allocation of the driver's.
const char* watching_tool() noexcept;

}  // namespace cubfc
