#include "shim/pointer_queries.h"

#include <atomic>

#include "shim/device_memory.h"
#include "shim/log.h"

namespace cubfc {
namespace {

// An address that nothing is ever mapped at: below the kernel's vm.mmap_min_addr. What the driver
// says of it is what it says of a pointer that is not a device pointer.
constexpr CUdeviceptr kNowhere = 0x1000;

// Numbers of blocks carry this bit; the driver counts its own buffers from 1.
constexpr unsigned long long kOurIds = 1ULL << 63;

template <typename T>
bool store(void* value, T answer) {
  *static_cast<T*>(value) = answer;
  return true;
}

// Stores the attributes that describe the allocation. False for the others: those are the region's,
// too.
bool answer_for_block(const arena::BlockInfo& block, CUpointer_attribute attribute, void* value) {
  switch (static_cast<int>(attribute)) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return store<CUdeviceptr>(value, block.address);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      // cuda.h: 1 or 0, of a width that it does not say. The driver has stored a 1.
      return store<unsigned char>(value, 0);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return store<std::size_t>(value, block.bytes);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return store<unsigned long long>(value, block.id | kOurIds);
    default:
      return false;
  }
}

}  // namespace

CUresult PointerQueries::address_range(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  const FoundBlock found = find_block(contexts_, address);
  if (found.context == nullptr || !found.live) {
    return driver_.cuMemGetAddressRange_v2(base, bytes,
                                           found.context == nullptr ? address : kNowhere);
  }
  CUdeviceptr region = 0;
  const CUresult result = driver_.cuMemGetAddressRange_v2(&region, nullptr, address);
  if (result != CUDA_SUCCESS) {
    return result;
  }
  if (base != nullptr) {
    *base = found.info.address;
  }
  if (bytes != nullptr) {
    *bytes = found.info.bytes;
  }
  return CUDA_SUCCESS;
}

CUresult PointerQueries::attribute(void* value, CUpointer_attribute attribute,
                                   CUdeviceptr address) {
  const FoundBlock found = find_block(contexts_, address);
  if (found.context == nullptr || !found.live) {
    return driver_.cuPointerGetAttribute(value, attribute,
                                         found.context == nullptr ? address : kNowhere);
  }
  const CUresult result = driver_.cuPointerGetAttribute(value, attribute, address);
  if (result == CUDA_SUCCESS) {
    answer_for_block(found.info, attribute, value);
  }
  return result;
}

CUresult PointerQueries::attributes(unsigned count, CUpointer_attribute* attributes, void** values,
                                    CUdeviceptr address) {
  const FoundBlock found = find_block(contexts_, address);
  if (found.context == nullptr || !found.live) {
    return driver_.cuPointerGetAttributes(count, attributes, values,
                                          found.context == nullptr ? address : kNowhere);
  }
  const CUresult result = driver_.cuPointerGetAttributes(count, attributes, values, address);
  if (result == CUDA_SUCCESS) {
    for (unsigned i = 0; i < count; ++i) {
      answer_for_block(found.info, attributes[i], values[i]);
    }
  }
  return result;
}

CUresult PointerQueries::set_attribute(const void* value, CUpointer_attribute attribute,
                                       CUdeviceptr address) {
  const FoundBlock found = find_block(contexts_, address);
  if (found.context != nullptr && !found.live) {
    return driver_.cuPointerSetAttribute(value, attribute, kNowhere);
  }
  if (found.live) {
    log::debug("cuPointerSetAttribute {} on a block applies to its whole region",
               static_cast<int>(attribute));
  }
  return driver_.cuPointerSetAttribute(value, attribute, address);
}

CUresult PointerQueries::handle_for_range(void* handle, CUdeviceptr address, std::size_t bytes,
                                          CUmemRangeHandleType type, unsigned long long flags) {
  const FoundBlock found = find_block(contexts_, address);
  if (found.context != nullptr) {
    const CUdeviceptr end = found.info.address + found.info.block_bytes;
    if (!found.live || bytes > end - address) {
      return CUDA_ERROR_INVALID_VALUE;  // it would reach into a neighbour
    }
  }
  return driver_.cuMemGetHandleForAddressRange(handle, address, bytes, type, flags);
}

// cuda.h, cuMemRetainAllocationHandle: only for memory that was mapped with cuMemMap.
CUresult PointerQueries::retain_handle(CUmemGenericAllocationHandle* handle, void* address) {
  if (find_block(contexts_, reinterpret_cast<CUdeviceptr>(address)).context != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return driver_.cuMemRetainAllocationHandle(handle, address);
}

// The driver's handle denotes the whole region: an importer would see the memory of other blocks at
// the address where it expects this one.
CUresult PointerQueries::ipc_handle(CUipcMemHandle* handle, CUdeviceptr address) {
  const FoundBlock found = find_block(contexts_, address);
  if (found.context == nullptr) {
    return driver_.cuIpcGetMemHandle(handle, address);
  }
  if (!found.live) {
    return driver_.cuIpcGetMemHandle(handle, kNowhere);
  }
  static std::atomic<bool> said{false};
  if (!said.exchange(true)) {
    log::warn(
        "cuIpcGetMemHandle: memory of the arena cannot be shared with another process; for a "
        "program "
        "that needs it set CUBFC_ALLOCATOR=platform");
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace cubfc
