// Physical memory that the program makes and maps (cuMemCreate, cuMemMap). The driver serves it.
// Its bytes are counted and limited. A request that fails for lack of memory is tried again when
// memory can be given back for it. Preallocated memory is given back first.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace cubfc {

class Claim;
class Contexts;
class DriverRequests;
struct Device;
struct DriverFunctions;

// Physical memory lives, and its claim with it, as long as the program has a handle of it or has it
// mapped somewhere. Thread-safe.
class PhysicalMemory {
 public:
  using Handle = CUmemGenericAllocationHandle;

  PhysicalMemory(const DriverFunctions& driver, Contexts& contexts, DriverRequests& requests)
      : driver_(driver), contexts_(contexts), requests_(requests) {}

  CUresult create(Handle* handle, std::size_t bytes, const CUmemAllocationProp* properties,
                  unsigned long long flags);
  CUresult release(Handle handle);
  CUresult map(CUdeviceptr address, std::size_t bytes, std::size_t offset, Handle handle,
               unsigned long long flags);
  CUresult unmap(CUdeviceptr address, std::size_t bytes);
  // Called when cuMemRetainAllocationHandle has given the program one more reference to the memory
  // that is mapped at this address.
  void retained(Handle handle, CUdeviceptr address) noexcept;

 private:
  using Shared = std::shared_ptr<Claim>;
  struct Reference {
    Shared memory;
    unsigned count;
  };
  struct Mapping {
    std::size_t bytes;
    Shared memory;
  };

  Shared memory_of(Handle handle);
  void tell_of_preallocation(const Device& device, std::uint64_t held_ready) noexcept;

  const DriverFunctions& driver_;
  Contexts& contexts_;
  DriverRequests& requests_;
  std::mutex mutex_;  // guards both maps
  std::unordered_map<Handle, Reference> handles_;
  std::map<CUdeviceptr, Mapping> mappings_;
  std::atomic<std::uint64_t> told_of_{0};  // devices that the log has told of, one bit each
};

}  // namespace cubfc
