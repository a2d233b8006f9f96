// The mappings of the virtual memory functions, for those that describe pointers.
#pragma once

#include "state.h"

namespace standin {

// The mapping that contains `address`; false where nothing is mapped. Wants state().mutex held.
bool FindMapping(CUdeviceptr address, CUdeviceptr* base, std::size_t* bytes, int* device = nullptr);

}  // namespace standin
