// cuPointerGetAttribute(s), cuPointerSetAttribute, cuMemGetHandleForAddressRange.
#include <unistd.h>

#include <cstring>
#include <string>

#include "allocate.h"
#include "behaviour.h"
#include "entry_point.h"
#include "pools.h"
#include "settings.h"
#include "vmm.h"

namespace standin {
namespace {

template <typename Value>
CUresult Give(void* out, Value value) {
  std::memcpy(out, &value, sizeof(value));  // NOLINT(bugprone-sizeof-expression): also of pointers
  return CUDA_SUCCESS;
}

// Memory of a pool, and mapped memory, is no context's.
bool HasContext(const Allocation& allocation) {
  const bool without =
      allocation.pool || IsOfGraph(allocation.kind) || allocation.kind == Kind::kReserved;
  return !without || !BehaviourFlag("cuPointerGetAttribute.pool_memory_has_no_context");
}

// What the current context's device may do with the memory.
unsigned AccessFlags(const Allocation& found, CUdeviceptr address) {
  constexpr unsigned kReadWrite = 3;  // CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
  Context* context = nullptr;
  const int device = CurrentContext(context) == CUDA_SUCCESS ? context->device : found.device;
  if (found.kind == Kind::kReserved) return AccessTo(address, device);
  if (found.kind == Kind::kPool) return IsReachable(found.pool, device) ? kReadWrite : 0;
  const bool elsewhere = found.kind == Kind::kDevice && device != found.device;
  return elsewhere && !context->peers.contains(found.context) ? 0 : kReadWrite;
}

CUresult GiveHostPointer(void* out, const Allocation& found, CUdeviceptr address) {
  if (!IsHost(found.kind) && !IsManaged(found.kind)) {
    return Behaviour("cuPointerGetAttribute.host_pointer_of_device_memory");
  }
  return Give(out, address);
}

CUresult GiveDevicePointer(void* out, CUdeviceptr address) {
  Context* context = nullptr;
  if (CurrentContext(context) != CUDA_SUCCESS) {
    return Behaviour("cuPointerGetAttribute.device_pointer.no_context");
  }
  return Give(out, address);
}

// cuda.h, cuMemBatchDecompressAsync: memory of cuMemAlloc, else what was made for it.
bool IsDecompressible(const Allocation& found, CUdeviceptr address) {
  std::shared_ptr<Pool> pool;
  return settings().decompression != 0 &&
         (found.kind == Kind::kDevice ||
          (found.kind == Kind::kReserved && IsMappedDecompressible(address)) ||
          (found.kind == Kind::kPool && FindPool(found.pool, pool) == CUDA_SUCCESS &&
           pool->decompressible));
}

// CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, which headers before CUDA 12.8 do not have.
constexpr auto kIsDecompressible = static_cast<CUpointer_attribute>(21);

// Writes one attribute of a pointer into `found` at `address`.
CUresult GiveAttribute(void* out, CUpointer_attribute attribute, const Allocation& found,
                       CUdeviceptr address) {
  CUdeviceptr mapping_base = found.base;
  std::size_t mapping_bytes = found.bytes;
  int device = found.device;
  const bool mapped =
      found.kind != Kind::kReserved || FindMapping(address, &mapping_base, &mapping_bytes, &device);
  if (attribute == kIsDecompressible) return Give(out, unsigned{IsDecompressible(found, address)});
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Give(out, HasContext(found) ? found.context : nullptr);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Give(out, unsigned{IsHost(found.kind) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE});
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return GiveDevicePointer(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return GiveHostPointer(out, found, address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return Give(out, unsigned{found.sync_memops});
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return Give(out, found.buffer_id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return Give(out, unsigned{IsManaged(found.kind)});
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Give(out, device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return Give(out, unsigned{found.kind == Kind::kDevice});
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return Give(out, found.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return Give(out, found.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Give(out, unsigned{mapped});
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return Give(out, std::uint64_t{0});
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return Give(out, unsigned{!IsHost(found.kind)});
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Give(out, AccessFlags(found, address));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Give(out, found.pool);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return Give(out, mapping_bytes);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return Give(out, mapping_base);
    default:
      return Behaviour("cuPointerGetAttribute.unknown_attribute");
  }
}

// What cuPointerGetAttributes writes for a pointer that is none, as wide as the attribute. An
// H200's driver leaves what it was for where a range begins and how long it is.
void GiveDefault(void* out, CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      if (!BehaviourFlag("cuPointerGetAttributes.unknown_leaves_the_range")) {
        Give(out, std::uint64_t{0});
      }
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      Give(out, -2);
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      Give(out, 0u);
      break;
    default:
      Give(out, std::uint64_t{0});
  }
}

Allocation* FindLive(CUdeviceptr address) {
  Allocation* const found = FindAllocation(address);
  return found && !found->freeing ? found : nullptr;
}

CUresult One(void* out, CUpointer_attribute attribute, CUdeviceptr address) {
  const Lock lock(state().mutex);
  if (!out) return Behaviour("cuPointerGetAttribute.null_output");
  Context* context = nullptr;
  if (CurrentContext(context) != CUDA_SUCCESS) {
    if (const CUresult error = Behaviour("cuPointerGetAttribute.no_context")) return error;
  }
  if (const Allocation* found = FindLive(address)) {
    return GiveAttribute(out, attribute, *found, address);
  }
  return Behaviour(std::string("cuPointerGetAttribute.") + CaseOfUnknown(address));
}

CUresult Many(unsigned count, CUpointer_attribute* attributes, void** outs, CUdeviceptr address) {
  const Lock lock(state().mutex);
  if (!attributes || !outs || count == 0) return Behaviour("cuPointerGetAttributes.null_output");
  const Allocation* const found = FindLive(address);
  for (unsigned i = 0; i < count; ++i) {
    GiveDefault(outs[i], attributes[i]);
    if (found) {
      GiveAttribute(outs[i], attributes[i], *found, address);
    } else if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER &&
               BehaviourFlag("cuPointerGetAttributes.unknown_is_its_own_host_pointer")) {
      Give(outs[i], address);  // what the driver does not know is the host's
    }
  }
  if (found) return CUDA_SUCCESS;
  return Behaviour(std::string("cuPointerGetAttributes.") + CaseOfUnknown(address));
}

CUresult Set(const void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  const Lock lock(state().mutex);
  if (!value) return Behaviour("cuPointerSetAttribute.null_value");
  if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    return Behaviour("cuPointerSetAttribute.unsupported_attribute");
  }
  Allocation* const found = FindLive(address);
  if (!found) return Behaviour(std::string("cuPointerSetAttribute.") + CaseOfUnknown(address));
  if (found->kind == Kind::kReserved) {
    if (const CUresult error = Behaviour("cuPointerSetAttribute.mapped_range")) return error;
  }
  found->sync_memops = *static_cast<const unsigned*>(value) != 0;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuPointerGetAttribute, (void* out, CUpointer_attribute attribute, CUdeviceptr address),
      (out, attribute, address)) {
  return One(out, attribute, address);
}

ENTRY(cuPointerGetAttributes,
      (unsigned count, CUpointer_attribute* attributes, void** outs, CUdeviceptr address),
      (count, attributes, outs, address)) {
  return Many(count, attributes, outs, address);
}

ENTRY(cuPointerSetAttribute,
      (const void* value, CUpointer_attribute attribute, CUdeviceptr address),
      (value, attribute, address)) {
  return Set(value, attribute, address);
}

// A file of the right size stands for the dma-buf: no device reads it.
ENTRY(cuMemGetHandleForAddressRange,
      (void* out, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
       unsigned long long flags),
      (out, address, bytes, type, flags)) {
  (void)flags;
  const Lock lock(state().mutex);
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || address % page != 0 || bytes % page != 0) {
    return Behaviour("cuMemGetHandleForAddressRange.unaligned");
  }
  const Allocation* const found = FindLive(address);
  const bool known = found && found->kind != Kind::kRegistered;
  if (!out || !known) return Behaviour("cuMemGetHandleForAddressRange.not_device_memory");
  const bool whole = address == found->base && bytes >= found->bytes;
  if (found->kind == Kind::kPool && !whole) {
    if (const CUresult error = Behaviour("cuMemGetHandleForAddressRange.part_of_pool_memory")) {
      return error;
    }
  }
  const auto& device = state().devices[static_cast<std::size_t>(found->device)];
  return Give(out, dup(device->memory.fd()));
}
