// The shared objects that ask for memory, in a line.
#pragma once

#include <string>
#include <vector>

#include "shim/tell/figures.h"

namespace cubfc::figures {

// "libtorch_cuda.so 3.00 GiB, python3.11 4.00 MiB": the first few, and how many more there are.
std::string listed(const std::vector<CallerPart>& parts);

}  // namespace cubfc::figures
