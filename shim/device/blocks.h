// Finds the block in which an address lies, among those that cubfc has given to the program, in
// arenas or outside of them.
#pragma once

#include <cuda.h>

#include "arena/arena.h"

namespace cubfc {

class Contexts;
struct Context;

// What find_block() knows of an address.
struct FoundBlock {
  // The context whose arena has a region there, whether the address is in a block or not, or the
  // context that has a block there from cubfc's pool. nullptr: the memory is the driver's.
  Context* context = nullptr;
  bool live = false;      // a live block contains the address
  arena::BlockInfo info;  // of that block; empty or out of date if not live
};
// The block that contains the address. Thread-safe; no driver call.
FoundBlock find_block(const Contexts& contexts, CUdeviceptr address);

// An address at which nothing is ever mapped: it is below the kernel's vm.mmap_min_addr. The driver
// answers questions about it as about any pointer that is not a device pointer.
inline constexpr CUdeviceptr kNowhere = 0x1000;

}  // namespace cubfc
