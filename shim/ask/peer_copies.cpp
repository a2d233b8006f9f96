#include "shim/ask/peer_copies.h"

#include <new>
#include <type_traits>

#include "shim/device/blocks.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"

namespace cubfc {

// Memory that the program has mapped, or has from a pool, is no context's. The copying device may
// use its own; for what is on another device, the program is to arrange the access.
PeerCopies::End PeerCopies::end_at(CUdeviceptr address) const noexcept {
  const FoundBlock found = find_block(contexts_, address);
  if (found.live) {
    return {CU_MEMORYTYPE_DEVICE, found.context->handle, true, true};
  }
  unsigned type = 0;
  const CUresult answer =
      driver_.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (answer == CUDA_ERROR_INVALID_VALUE) {
    return {};
  }
  if (answer == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST) {
    return {CU_MEMORYTYPE_HOST, nullptr, false, true};
  }
  CUcontext context = nullptr;
  int device = 0;
  const Context* const current = contexts_.current();
  const bool told = driver_.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT,
                                                  address) == CUDA_SUCCESS;
  if (told && context == nullptr && current != nullptr &&
      driver_.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) ==
          CUDA_SUCCESS &&
      device == current->device.handle) {
    context = current->handle;
  }
  return {CU_MEMORYTYPE_DEVICE, told ? context : nullptr, false, true};
}

bool PeerCopies::name_ends(CUDA_MEMCPY3D_PEER& copy) const noexcept try {
  if (!contexts_.devices().any_needs_access()) {
    return false;
  }
  bool any_is_ours = false;
  bool all_are_known = true;
  // An end that is an array is known to the driver, and the host's memory to the program.
  const auto name = [&](CUmemorytype& type, CUcontext& context, auto& host, CUdeviceptr base,
                        std::size_t offset) {
    if (type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED) {
      return;
    }
    const End end = end_at(base + offset);
    const bool may_be_the_hosts = end.is_known || type == CU_MEMORYTYPE_UNIFIED;
    all_are_known = all_are_known &&
                    (end.type == CU_MEMORYTYPE_HOST ? may_be_the_hosts : end.context != nullptr);
    any_is_ours = any_is_ours || end.is_ours;
    type = end.type;
    context = end.context;
    if (type == CU_MEMORYTYPE_HOST) {
      host = reinterpret_cast<std::remove_reference_t<decltype(host)>>(base);
    }
  };
  name(copy.dstMemoryType, copy.dstContext, copy.dstHost, copy.dstDevice,
       (copy.dstZ * copy.dstHeight + copy.dstY) * copy.dstPitch + copy.dstXInBytes);
  name(copy.srcMemoryType, copy.srcContext, copy.srcHost, copy.srcDevice,
       (copy.srcZ * copy.srcHeight + copy.srcY) * copy.srcPitch + copy.srcXInBytes);
  return any_is_ours && all_are_known;
} catch (const std::bad_alloc&) {
  return false;
}

bool PeerCopies::peer_copy_may_be_lost(CUdeviceptr to) const noexcept {
  const auto block = contexts_.devices().find_beside_arenas(to);
  return block && block->live && block->context->device.peers.load() != 0;
}

}  // namespace cubfc
