// What a launch hands to a kernel of which the software driver knows nothing but its name.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>
#include <vector>

#include "launch.h"
#include "modules.h"

namespace standin {

// The addresses of device memory among the arguments of a launch, inside structures, too. Where the
// image of the kernel could be read it says how long each argument is; else the kernel's mangled
// name tells how many there are and which are plain words, and a structure is taken to reach to the
// next argument in the caller's memory. Wants state().mutex held.
std::vector<CUdeviceptr> AddressesIn(const Function& function, Arguments arguments);

// The bytes of each argument, where the image of the kernel could be read and the launch has them.
// Wants state().mutex held.
std::vector<std::vector<std::byte>> ArgumentsOf(const Function& function, Arguments arguments);

}  // namespace standin
