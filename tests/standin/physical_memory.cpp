// cuMemCreate, cuMemRelease and their like: physical memory, its properties, and its handles for
// other processes.
#include "physical_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "behaviour.h"
#include "entry_point.h"

namespace standin {

std::map<CUmemGenericAllocationHandle, Physical>& physical() {
  static auto* const instance = new std::map<CUmemGenericAllocationHandle, Physical>;
  return *instance;
}

void EndPhysicalIfUnused(CUmemGenericAllocationHandle handle) {
  const auto found = physical().find(handle);
  const Physical& unused = found->second;
  if (unused.references > 0 || unused.mappings > 0) return;
  close(unused.fd);
  if (unused.counted) {
    const auto device = static_cast<std::size_t>(unused.properties.location.id);
    state().devices[device]->memory.Discount(unused.bytes);
  }
  physical().erase(found);
}

bool IsMultipleOfGranularity(std::size_t value) {
  return value % BehaviourSize("vmm.granularity") == 0;
}

namespace {

// The values of CUmemAllocationHandleType.
constexpr unsigned kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr unsigned kWin32 = CU_MEM_HANDLE_TYPE_WIN32;
constexpr unsigned kWin32Kmt = CU_MEM_HANDLE_TYPE_WIN32_KMT;
constexpr unsigned kFabric = 8;  // no device here supports it

CUmemGenericAllocationHandle Add(const Physical& added) {
  static CUmemGenericAllocationHandle last = 0x5d000000;
  physical()[++last] = added;
  return last;
}

// Of the types of handles that memory is made for; bits that mean nothing are ignored.
bool CanBeMadeFor(unsigned handle_types) {
  return (handle_types & (kWin32 | kWin32Kmt | kFabric)) == 0;
}

// A handle is asked for by one type: none and several are no type, what is not served is another
// matter.
CUresult CheckServed(CUmemAllocationHandleType type) {
  const auto asked = static_cast<unsigned>(type);
  if (asked == kDescriptor) return CUDA_SUCCESS;
  const bool exists = asked == kWin32 || asked == kWin32Kmt || asked == kFabric;
  return exists ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

CUresult Create(CUmemGenericAllocationHandle* out, std::size_t bytes,
                const CUmemAllocationProp* properties) {
  const Lock lock(state().mutex);
  if (!out || !properties || bytes == 0 || !IsMultipleOfGranularity(bytes))
    return Behaviour("cuMemCreate.unaligned");
  Device* device = nullptr;
  if (const CUresult error = FindDevice(properties->location.id, device)) return error;
  if (!CanBeMadeFor(static_cast<unsigned>(properties->requestedHandleTypes))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!device->memory.Count(bytes)) return Behaviour("cuMemCreate.above_device");
  const int fd = memfd_create("standin-physical", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_UNKNOWN;
  *out = Add({.properties = *properties, .bytes = bytes, .fd = fd, .counted = true});
  return CUDA_SUCCESS;
}

CUresult Import(CUmemGenericAllocationHandle* out, int descriptor) {
  const Lock lock(state().mutex);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const int fd = dup(descriptor);
  if (fd < 0) return Behaviour("cuMemImportFromShareableHandle.bad_descriptor");
  struct stat info {};
  if (fstat(fd, &info) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  *out = Add({.properties = properties,
              .bytes = static_cast<std::size_t>(info.st_size),
              .fd = fd,
              .counted = false});
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuMemCreate,
      (CUmemGenericAllocationHandle * out, size_t bytes, const CUmemAllocationProp* properties,
       unsigned long long flags),
      (out, bytes, properties, flags)) {
  return flags == 0 ? Create(out, bytes, properties) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle)) {
  const Lock lock(state().mutex);
  const auto found = physical().find(handle);
  if (found == physical().end() || found->second.references == 0) {
    return Behaviour("cuMemRelease.garbage");
  }
  --found->second.references;
  EndPhysicalIfUnused(handle);
  return CUDA_SUCCESS;
}

ENTRY(cuMemGetAllocationGranularity,
      (size_t * out, const CUmemAllocationProp* properties,
       CUmemAllocationGranularity_flags option),
      (out, properties, option)) {
  const bool known =
      option == CU_MEM_ALLOC_GRANULARITY_MINIMUM || option == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
  if (!out || !properties || !known) return CUDA_ERROR_INVALID_VALUE;
  *out = BehaviourSize("vmm.granularity");
  return CUDA_SUCCESS;
}

ENTRY(cuMemGetAllocationPropertiesFromHandle,
      (CUmemAllocationProp * out, CUmemGenericAllocationHandle handle), (out, handle)) {
  const Lock lock(state().mutex);
  const auto found = physical().find(handle);
  if (!out || found == physical().end()) return CUDA_ERROR_INVALID_VALUE;
  *out = found->second.properties;
  return CUDA_SUCCESS;
}

ENTRY(cuMemExportToShareableHandle,
      (void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
       unsigned long long flags),
      (out, handle, type, flags)) {
  const Lock lock(state().mutex);
  const auto found = physical().find(handle);
  if (!out || flags != 0 || found == physical().end()) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckServed(type)) return error;
  const auto allowed = static_cast<unsigned>(found->second.properties.requestedHandleTypes);
  if ((allowed & kDescriptor) == 0) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int*>(out) = dup(found->second.fd);
  return CUDA_SUCCESS;
}

ENTRY(cuMemImportFromShareableHandle,
      (CUmemGenericAllocationHandle * out, void* os_handle, CUmemAllocationHandleType type),
      (out, os_handle, type)) {
  if (const CUresult error = CheckServed(type)) return error;
  return Import(out, static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle)));
}
