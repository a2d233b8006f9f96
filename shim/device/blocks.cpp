#include "shim/device/blocks.h"

#include "shim/device/contexts.h"
#include "shim/device/devices.h"

namespace cubfc {

FoundBlock find_block(const Contexts& contexts, CUdeviceptr address) {
  FoundBlock found{contexts.owner_of_region(address), false, {}};
  if (found.context != nullptr) {
    if (const auto info = found.context->arena.find_containing(address)) {
      found.live = true;
      found.info = *info;
    }
    return found;
  }
  if (const auto block = contexts.devices().find_beside_arenas(address)) {
    found = {block->context, block->live, {block->address, block->bytes, block->bytes, block->id}};
  }
  return found;
}

}  // namespace cubfc
