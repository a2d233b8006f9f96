// Whose an address is: of the blocks that cubfc has given to the program, in arenas or beside them.
#pragma once

#include <cuda.h>

#include "arena/arena.h"

namespace cubfc {

class Contexts;
struct Context;

// What find_block() knows of an address.
struct FoundBlock {
  // Set when the address is in a region of this context's arena, be a block there or not, or in a
  // block that it has from cubfc's pool. nullptr: it is the driver's.
  Context* context = nullptr;
  bool live = false;      // a live block contains the address
  arena::BlockInfo info;  // that block's; empty or out of date if not live
};
// The block that contains the address. Thread-safe; no driver call.
FoundBlock find_block(const Contexts& contexts, CUdeviceptr address);

// An address that nothing is ever mapped at: below the kernel's vm.mmap_min_addr. What the driver
// says of it is what it says of a pointer that is not a device pointer.
inline constexpr CUdeviceptr kNowhere = 0x1000;

}  // namespace cubfc
