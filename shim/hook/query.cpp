// The wrappers of functions that ask about memory.
#include "shim/ask/memory_info.h"
#include "shim/ask/physical_memory.h"
#include "shim/ask/pointer_queries.h"
#include "shim/hook/calls.h"

namespace cubfc {

using Functions = DriverFunctions;

namespace wrapper {
extern "C" {

CUresult cubfc_cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  return answer([&](Process& p) { return p.info().of_current_context(free_bytes, total_bytes); },
                &Functions::cuMemGetInfo_v2, free_bytes, total_bytes);
}

CUresult cubfc_cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  return answer([&](Process& p) { return p.info().total(bytes, device); },
                &Functions::cuDeviceTotalMem_v2, bytes, device);
}

CUresult cubfc_cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  return answer([&](Process& p) { return p.pointers().address_range(base, bytes, address); },
                &Functions::cuMemGetAddressRange_v2, base, bytes, address);
}

CUresult cubfc_cuPointerGetAttribute(void* value, CUpointer_attribute attribute,
                                     CUdeviceptr address) {
  return answer([&](Process& p) { return p.pointers().attribute(value, attribute, address); },
                &Functions::cuPointerGetAttribute, value, attribute, address);
}

CUresult cubfc_cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes,
                                      void** values, CUdeviceptr address) {
  return answer(
      [&](Process& p) { return p.pointers().attributes(count, attributes, values, address); },
      &Functions::cuPointerGetAttributes, count, attributes, values, address);
}

CUresult cubfc_cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                     CUdeviceptr address) {
  return answer([&](Process& p) { return p.pointers().set_attribute(value, attribute, address); },
                &Functions::cuPointerSetAttribute, value, attribute, address);
}

CUresult cubfc_cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t bytes,
                                             CUmemRangeHandleType type, unsigned long long flags) {
  return answer(
      [&](Process& p) {
        return p.pointers().handle_for_range(handle, address, bytes, type, flags);
      },
      &Functions::cuMemGetHandleForAddressRange, handle, address, bytes, type, flags);
}

CUresult cubfc_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return answer(
      [&](Process& p) {
        const CUresult result = p.pointers().retain_handle(handle, address);
        if (result == CUDA_SUCCESS) {
          p.physical().retained(*handle, reinterpret_cast<CUdeviceptr>(address));
        }
        return result;
      },
      &Functions::cuMemRetainAllocationHandle, handle, address);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
