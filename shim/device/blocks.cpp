#include "shim/device/blocks.h"

#include "shim/device/contexts.h"
#include "shim/device/devices.h"

namespace cubfc {

FoundBlock find_block(const Contexts& contexts, CUdeviceptr address) {
  FoundBlock found{contexts.owner_of(address), false, {}};
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

Context* owner_of(const Contexts& contexts, CUdeviceptr address) {
  if (Context* const context = contexts.owner_of(address); context != nullptr) {
    return context;
  }
  const auto block = contexts.devices().find_beside_arenas(address);
  return block ? block->context : nullptr;
}

}  // namespace cubfc
