// The policy file of the machine, or the container, as it lies on the disk.
#pragma once

#include "config/policy_file.h"

namespace cubfc {

// What it says; nothing where there is none. It may enforce if it is root's and nobody else may
// write it. If such a file cannot be read it is `unusable`; any other is told of in its `problems`.
// Throws std::bad_alloc. Thread-safe.
config::PolicyFile read_policy_file(const char* path = config::kPolicyFile);

}  // namespace cubfc
