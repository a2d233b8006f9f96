// Device memory that the program takes by functions which know neither blocks nor addresses:
// physical memory (cuMemCreate) and arrays. The driver serves it; it is counted, limited, and asked
// for again when arenas have given back what nobody uses.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "shim/serve/device_memory.h"

namespace cubfc {

// Physical memory lives as long as somebody has its handle or it is mapped somewhere. Thread-safe.
class PhysicalMemory {
 public:
  using Handle = CUmemGenericAllocationHandle;

  PhysicalMemory(const DriverFunctions& driver, Contexts& contexts, DeviceMemory& memory)
      : driver_(driver), contexts_(contexts), memory_(memory) {}

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

  const DriverFunctions& driver_;
  Contexts& contexts_;
  DeviceMemory& memory_;
  std::mutex mutex_;  // guards both
  std::unordered_map<Handle, Reference> handles_;
  std::map<CUdeviceptr, Mapping> mappings_;
};

// Thread-safe.
class Arrays : private ContextListener {
 public:
  Arrays(const DriverFunctions& driver, Contexts& contexts, DeviceMemory& memory)
      : driver_(driver), contexts_(contexts), memory_(memory) {
    contexts.tell(*this);
  }

  CUresult create(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* shape);
  CUresult create_3d(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape);
  CUresult create_mipmapped(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape,
                            unsigned levels);
  CUresult destroy(CUarray array);
  CUresult destroy_mipmapped(CUmipmappedArray array);

 private:
  void context_ended(std::uint64_t id) override { ledger_.forget_context(id); }
  template <typename Array, typename Create>
  CUresult create(Array* array, std::uint64_t bytes, const char* function, Create create);
  template <typename Array>
  CUresult destroy(CUresult (*function)(Array), Array array);

  const DriverFunctions& driver_;
  Contexts& contexts_;
  DeviceMemory& memory_;
  Ledger<const void*> ledger_;
};

// What an array takes, padding left out: the driver does not tell before it is there.
std::uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels);

}  // namespace cubfc
