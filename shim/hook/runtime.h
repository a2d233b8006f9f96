// cudaMalloc, cudaFree and the two that allocate in a stream, for programs whose runtime is a
// shared library. (One that is linked into the program has no such symbols; it comes through the
// driver's entry points like everything else.)
#pragma once

#include <string_view>

namespace cubfc {

// Our wrapper of a runtime function; nullptr for a name that is not one of them.
void* runtime_wrapper(std::string_view name);

}  // namespace cubfc
