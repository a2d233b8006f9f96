// Whose an address is: of the blocks that cubfc has given to the program, in arenas or beside them.
#pragma once

#include <cuda.h>

#include "arena/arena.h"

namespace cubfc {

class Contexts;
struct Context;

// The block that contains an address.
struct FoundBlock {
  // In whose arena's regions the address lies, or in a block of whose own beside the arenas;
  // nullptr if in none.
  Context* context = nullptr;
  bool live = false;  // and there is a live block, `info`
  arena::BlockInfo info;
};
// Thread-safe.
FoundBlock find_block(const Contexts& contexts, CUdeviceptr address);
// Only whose it is.
Context* owner_of(const Contexts& contexts, CUdeviceptr address);

// An address that nothing is ever mapped at: below the kernel's vm.mmap_min_addr. What the driver
// says of it is what it says of a pointer that is not a device pointer.
inline constexpr CUdeviceptr kNowhere = 0x1000;

}  // namespace cubfc
