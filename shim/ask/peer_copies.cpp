#include "shim/ask/peer_copies.h"

#include <new>

#include "shim/device/blocks.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"

namespace cubfc {

// Memory that the program has mapped, or has from a pool, is no context's. The copying device may
// use its own; for what is on another device, the program is to arrange the access.
PeerCopies::End PeerCopies::end_at(CUdeviceptr address, const Context* current) const noexcept {
  const FoundBlock found = find_block(contexts_, address);
  if (found.live) {
    return {found.context->handle, found.context};
  }
  CUcontext context = nullptr;
  const bool told = driver_.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT,
                                                  address) == CUDA_SUCCESS;
  int device = 0;
  if (told && context == nullptr && current != nullptr &&
      driver_.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) ==
          CUDA_SUCCESS &&
      device == current->device.handle) {
    return {current->handle, nullptr};
  }
  return {told ? context : nullptr, nullptr};
}

std::optional<PeerCopies::Ends> PeerCopies::ends_of_refused(CUdeviceptr to,
                                                            CUdeviceptr from) const noexcept try {
  if (!contexts_.devices().any_needs_access()) {
    return std::nullopt;
  }
  const Context* const current = contexts_.current();
  const End target = end_at(to, current);
  const End source = end_at(from, current);
  const auto is_near = [&](const End& end) {
    return end.of_ours != nullptr && current != nullptr && &end.of_ours->device == &current->device;
  };
  const bool ours = target.of_ours != nullptr || source.of_ours != nullptr;
  const bool within_reach = is_near(target) && is_near(source);
  if (!ours || within_reach || target.context == nullptr || source.context == nullptr) {
    return std::nullopt;
  }
  return Ends{target.context, source.context};
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

bool PeerCopies::peer_copy_may_be_lost(CUdeviceptr to) const noexcept {
  const auto block = contexts_.devices().find_beside_arenas(to);
  return block && block->live && block->context->device.peers.load() != 0;
}

}  // namespace cubfc
