// What the driver says of a pointer, corrected for blocks: each block looks like an allocation of
// its own, and a block that has been freed is no device pointer any more.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "config/policy.h"

namespace cubfc {

class Contexts;
class Ipc;
struct Context;
struct DriverFunctions;

// The functions stand for, in this order: cuMemGetAddressRange, cuPointerGetAttribute,
// cuPointerGetAttributes, cuPointerSetAttribute, cuMemGetHandleForAddressRange,
// cuMemRetainAllocationHandle. Each answers as the driver would if the block were an allocation of
// its own. Thread-safe.
class PointerQueries {
 public:
  PointerQueries(const DriverFunctions& driver, const config::Policy& policy,
                 const Contexts& contexts, const Ipc& ipc)
      : driver_(driver), policy_(policy), contexts_(contexts), ipc_(ipc) {}

  CUresult address_range(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address);
  CUresult attribute(void* value, CUpointer_attribute attribute, CUdeviceptr address);
  CUresult attributes(unsigned count, CUpointer_attribute* attributes, void** values,
                      CUdeviceptr address);
  CUresult set_attribute(const void* value, CUpointer_attribute attribute, CUdeviceptr address);
  CUresult handle_for_range(void* handle, CUdeviceptr address, std::size_t bytes,
                            CUmemRangeHandleType type, unsigned long long flags);
  CUresult retain_handle(CUmemGenericAllocationHandle* handle, void* address);

 private:
  // What the program is to see at an address.
  struct Seen {
    CUdeviceptr ask;  // the address that the driver is to answer for
    bool is_block;    // then all below describes it
    CUdeviceptr start;
    std::size_t bytes;
    unsigned long long id;
    bool shareable = true;  // by the driver's IPC
  };
  Seen look_at(CUdeviceptr address) const;
  static bool has_blocks_throughout(Context& context, CUdeviceptr address, std::size_t bytes);
  void answer(const Seen& block, CUpointer_attribute attribute, void* value) const;

  const DriverFunctions& driver_;
  const config::Policy& policy_;
  const Contexts& contexts_;
  const Ipc& ipc_;
};

}  // namespace cubfc
