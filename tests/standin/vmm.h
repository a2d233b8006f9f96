// The mappings of the virtual memory functions, for those that describe pointers, and for contexts.
#pragma once

#include "state.h"

namespace standin {

// The mapping that contains `address`; false where nothing is mapped. Wants state().mutex held.
bool FindMapping(CUdeviceptr address, CUdeviceptr* base, std::size_t* bytes, int* device = nullptr);

// What cuMemSetAccess last gave the device to the memory that is mapped at `address`; nothing where
// nothing is mapped. Wants state().mutex held.
CUmemAccess_flags AccessTo(CUdeviceptr address, int device);

// Whether the memory that is mapped there was made for hardware decompression. Wants state().mutex
// held.
bool IsMappedDecompressible(CUdeviceptr address);

// Ends what was mapped while the context was current. Wants state().mutex held.
void UnmapAllOf(const Context& context);

}  // namespace standin
