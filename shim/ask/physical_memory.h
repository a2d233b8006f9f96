// Physical memory that the program makes and maps (cuMemCreate, cuMemMap). The driver serves it; it
// is counted, limited, and asked for again when something can be given back.
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

// Physical memory lives as long as somebody has its handle or it is mapped somewhere. Thread-safe.
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
  // The program was given one more reference to what is mapped there.
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
  std::mutex mutex_;  // guards both
  std::unordered_map<Handle, Reference> handles_;
  std::map<CUdeviceptr, Mapping> mappings_;
  std::atomic<std::uint64_t> told_of_{0};  // devices, one bit each
};

}  // namespace cubfc
