#include "shim/ask/peer_copies.h"

#include <new>
#include <type_traits>

#include "shim/device/blocks.h"
#include "shim/device/contexts.h"
#include "shim/device/devices.h"

namespace cubfc {

// What memory there is at an address. Memory that the program has mapped, or has from a pool, has
// no context. On the current context's device the End gets that context: a device may use its own
// memory. On another device the End gets none, because the program must arrange the access.
PeerCopies::End PeerCopies::end_at(CUdeviceptr address) const noexcept {
  const FoundBlock found = find_block(contexts_, address);
  if (found.live) {
    return {CU_MEMORYTYPE_DEVICE, found.context->handle, found.context, true, false};
  }
  unsigned type = 0;
  const CUresult answer =
      driver_.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (answer != CUDA_SUCCESS) {  // compared with that for the stack, which is pageable
    const bool is_unknown =
        answer == driver_.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                reinterpret_cast<CUdeviceptr>(&type));
    return {CU_MEMORYTYPE_HOST, nullptr, nullptr, false, is_unknown};
  }
  if (type == CU_MEMORYTYPE_HOST) {
    return {CU_MEMORYTYPE_HOST, nullptr, nullptr, true, false};
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
  return {CU_MEMORYTYPE_DEVICE, told ? context : nullptr, nullptr, true, false};
}

const Context* PeerCopies::context_of(CUstream stream) const noexcept {
  const Context* const current = contexts_.current();
  CUcontext context = nullptr;
  const bool by_default = stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  const bool is_its = current != nullptr &&
                      (by_default || (driver_.cuStreamGetCtx != nullptr &&
                                      driver_.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS &&
                                      context == current->handle));
  return is_its ? current : nullptr;
}

std::optional<PeerCopies::Ends> PeerCopies::name_ends(CUDA_MEMCPY3D_PEER& copy,
                                                      CUstream stream) const noexcept try {
  if (!contexts_.devices().any_needs_access()) {
    return std::nullopt;
  }
  const Context* const copying = context_of(stream);
  bool any_is_ours = false;
  bool all_are_known = true;
  bool all_are_near = true;
  Ends ends{false};
  // Names one end. An array needs no name: the driver knows it. An address that is given as the
  // host's may be a device's all the same.
  const auto name = [&](CUmemorytype& type, CUcontext& context, auto& host, CUdeviceptr& device,
                        std::size_t offset) {
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE &&
        type != CU_MEMORYTYPE_UNIFIED) {
      return;
    }
    const CUdeviceptr base =
        type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host) : device;
    const End end = end_at(base + offset);
    const bool is_the_hosts = end.type == CU_MEMORYTYPE_HOST;
    const bool may_be_the_hosts = end.is_known || type == CU_MEMORYTYPE_HOST ||
                                  (type == CU_MEMORYTYPE_UNIFIED && end.may_be_pageable);
    all_are_known = all_are_known && (is_the_hosts ? may_be_the_hosts : end.context != nullptr);
    any_is_ours = any_is_ours || end.of_ours != nullptr;
    all_are_near = all_are_near && (is_the_hosts || (end.of_ours != nullptr && copying != nullptr &&
                                                     &end.of_ours->device == &copying->device));
    unsigned managed = is_the_hosts ? 1 : 0;
    if (!is_the_hosts && end.of_ours == nullptr) {
      driver_.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, base + offset);
    }
    ends.host_uses_one = ends.host_uses_one || managed != 0;
    type = end.type;
    context = end.context;
    host = reinterpret_cast<std::remove_reference_t<decltype(host)>>(base);
    device = base;
  };
  name(copy.dstMemoryType, copy.dstContext, copy.dstHost, copy.dstDevice,
       (copy.dstZ * copy.dstHeight + copy.dstY) * copy.dstPitch + copy.dstXInBytes);
  name(copy.srcMemoryType, copy.srcContext, copy.srcHost, copy.srcDevice,
       (copy.srcZ * copy.srcHeight + copy.srcY) * copy.srcPitch + copy.srcXInBytes);
  return any_is_ours && all_are_known && !all_are_near ? std::optional(ends) : std::nullopt;
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

bool PeerCopies::peer_copy_may_be_lost(CUdeviceptr to) const noexcept {
  const auto block = contexts_.devices().find_beside_arenas(to);
  return block && block->live && block->context->device.peers.load() != 0;
}

}  // namespace cubfc
