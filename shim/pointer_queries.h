// What the driver says of a pointer, made true for blocks: each looks like an allocation of its
// own, and one that has been freed is no device pointer any more.
#pragma once

#include "shim/contexts.h"
#include "shim/driver.h"

namespace cubfc {

// Each function answers as the driver's of the same name would. Thread-safe.
class PointerQueries {
 public:
  PointerQueries(const DriverFunctions& driver, const Contexts& contexts)
      : driver_(driver), contexts_(contexts) {}

  CUresult address_range(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address);
  CUresult attribute(void* value, CUpointer_attribute attribute, CUdeviceptr address);
  CUresult attributes(unsigned count, CUpointer_attribute* attributes, void** values,
                      CUdeviceptr address);
  CUresult set_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address);
  CUresult handle_for_range(void* handle, CUdeviceptr address, std::size_t bytes,
                            CUmemRangeHandleType type, unsigned long long flags);
  CUresult retain_handle(CUmemGenericAllocationHandle* handle, void* address);
  CUresult ipc_handle(CUipcMemHandle* handle, CUdeviceptr address);

 private:
  const DriverFunctions& driver_;
  const Contexts& contexts_;
};

}  // namespace cubfc
