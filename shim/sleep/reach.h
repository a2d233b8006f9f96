// Who may use the program's device memory without a call through a gate (gates.h): then the memory
// must not be taken away.
#pragma once

#include <string>

namespace cubfc {

// Looks at the objects that are loaded, at the files that are open, and at the functions that the
// program has looked up. Returns what may use the memory, as the end of a sentence that begins with
// "it": "has /dev/infiniband/uverbs0 open, ...". Empty if there is nothing. Throws std::bad_alloc.
std::string who_needs_no_gate();
// The same without the objects that are loaded: takes no lock of the dynamic linker's, which a
// thread at a stopped gate may hold.
std::string who_needs_no_gate_by_now();

}  // namespace cubfc
