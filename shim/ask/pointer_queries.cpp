#include "shim/ask/pointer_queries.h"

#include <algorithm>

#include "shim/device/blocks.h"
#include "shim/device/contexts.h"
#include "shim/device/server.h"
#include "shim/share/ipc.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

// Ids of blocks have the highest bit set; those of other processes' blocks also the next one. The
// driver counts its own buffers from 1.
constexpr unsigned long long kOurIds = 1ULL << 63;
constexpr unsigned long long kImportedIds = kOurIds | 1ULL << 62;

template <typename T>
bool store(void* value, T answer) {
  *static_cast<T*>(value) = answer;
  return true;
}

}  // namespace

PointerQueries::Seen PointerQueries::look_at(CUdeviceptr address) const {
  const FoundBlock found = find_block(contexts_, address);
  if (found.live) {
    return {address,
            true,
            found.info.address,
            found.info.bytes,
            found.info.id | kOurIds,
            found.context->is_shareable()};
  }
  if (found.context != nullptr) {
    return {kNowhere, false, 0, 0, 0};
  }
  if (const auto import = ipc_.find_import(address)) {
    const bool open = import->bytes > 0;
    return !open ? Seen{kNowhere, false, 0, 0, 0}
                 : Seen{address, true, import->address, import->bytes, import->id | kImportedIds};
  }
  return {address, false, 0, 0, 0};
}

// Corrects the driver's answer for attributes that describe the allocation. All others are the same
// for the block and for its region. Among these is CONTEXT, which is NULL for mapped memory and for
// a pool's. From NULL libraries conclude, here rightly, that the memory has no legacy IPC handle
// (UCX then never asks for one).
void PointerQueries::answer(const Seen& block, CUpointer_attribute attribute, void* value) const {
  switch (static_cast<int>(attribute)) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      store<CUdeviceptr>(value, block.start);
      break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      // cuda.h does not say how wide this value is. The driver has stored 1 or 0: with its lowest
      // byte cleared it is 0 at any width.
      if (policy_.ipc.value == config::Ipc::kDriver || !block.shareable) {
        store<unsigned char>(value, 0);
      }
      break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      store<CUmemoryPool>(value, nullptr);  // cubfc's own pool is not shown
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      store<std::size_t>(value, block.bytes);
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      store<unsigned long long>(value, block.id);
      break;
    default:
      break;
  }
}

CUresult PointerQueries::address_range(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  const Seen seen = look_at(address);
  if (!seen.is_block) {
    return driver_.cuMemGetAddressRange_v2(base, bytes, seen.ask);
  }
  CUdeviceptr region = 0;
  const CUresult result = driver_.cuMemGetAddressRange_v2(&region, nullptr, address);
  if (result == CUDA_SUCCESS && base != nullptr) {
    *base = seen.start;
  }
  if (result == CUDA_SUCCESS && bytes != nullptr) {
    *bytes = seen.bytes;
  }
  return result;
}

CUresult PointerQueries::attribute(void* value, CUpointer_attribute attribute,
                                   CUdeviceptr address) {
  const Seen seen = look_at(address);
  const CUresult result = driver_.cuPointerGetAttribute(value, attribute, seen.ask);
  if (result == CUDA_SUCCESS && seen.is_block && value != nullptr) {
    answer(seen, attribute, value);
  }
  return result;
}

CUresult PointerQueries::attributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                    CUdeviceptr address) {
  const Seen seen = look_at(address);
  const CUresult result = driver_.cuPointerGetAttributes(count, attributes, values, seen.ask);
  if (result != CUDA_SUCCESS || attributes == nullptr || values == nullptr) {
    return result;
  }
  for (unsigned i = 0; i < count; ++i) {
    if (values[i] == nullptr) {
      continue;
    }
    if (seen.is_block) {
      answer(seen, attributes[i], values[i]);
    } else if (seen.ask != address && attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER) {
      // For memory that it does not know, the driver answers with the address that it was asked
      // for, which here is not the program's.
      store<CUdeviceptr>(values[i], address);
    }
  }
  return result;
}

CUresult PointerQueries::set_attribute(const void* value, CUpointer_attribute attribute,
                                       CUdeviceptr address) {
  const Seen seen = look_at(address);
  if (seen.is_block) {
    log::debug("cuPointerSetAttribute {} on a block applies to its whole region",
               static_cast<int>(attribute));
  }
  return driver_.cuPointerSetAttribute(value, attribute, seen.ask);
}

// A caller that registers a small block rounds it out to whole pages (cuda.h: the range must be
// aligned to the host's page size; some callers take the GPU's). So the first page and the last may
// hold parts of other blocks, as with the driver's own small allocations. But if some page holds
// nothing of the program's, the range is refused.
CUresult PointerQueries::handle_for_range(void* handle, CUdeviceptr address, std::size_t bytes,
                                          CUmemRangeHandleType type, unsigned long long flags) {
  const FoundBlock found = find_block(contexts_, address);
  if (found.context != nullptr && !has_blocks_throughout(*found.context, address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return driver_.cuMemGetHandleForAddressRange(handle, address, bytes, type, flags);
}

// Whether each of the GPU's pages in the range holds a part of a live block. Of the first page and
// the last, only what the range covers is looked at.
bool PointerQueries::has_blocks_throughout(Context& context, CUdeviceptr address,
                                           std::size_t bytes) {
  const CUdeviceptr range_end = address + bytes;
  if (range_end < address) {
    return false;
  }
  CUdeviceptr from = address;
  while (from < range_end) {
    const auto [start, end] =
        context.device.server->find_live_from(context, from).value_or(Server::Extent{});
    const CUdeviceptr page_end = arena::round_up(from + 1, arena::kPageBytes);
    if (end <= from || start >= std::min(page_end, range_end)) {
      return false;
    }
    from = std::max<CUdeviceptr>(page_end, arena::round_up(end, arena::kPageBytes));
  }
  return true;
}

// cuda.h, cuMemRetainAllocationHandle: only for memory that was mapped with cuMemMap. To the
// program a block is memory of cuMemAlloc.
CUresult PointerQueries::retain_handle(CUmemGenericAllocationHandle* handle, void* address) {
  if (find_block(contexts_, reinterpret_cast<CUdeviceptr>(address)).context != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return driver_.cuMemRetainAllocationHandle(handle, address);
}

}  // namespace cubfc
