// Reads the policy file of the machine, or of the container, from the disk.
#pragma once

#include "config/policy_file.h"

namespace cubfc {

// Reads the policy file; an empty PolicyFile if there is none. The file may enforce settings if it
// belongs to root and nobody else may write it. If such a file cannot be read, `unusable` says why.
// If any other cannot be read, `problems` says why, and no setting of it is in force. Throws
// std::bad_alloc. Thread-safe.
config::PolicyFile read_policy_file(const char* path = config::kPolicyFile);

}  // namespace cubfc
