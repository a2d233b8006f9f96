// cuMemAddressReserve, cuMemMap and their like: addresses, and physical memory mapped to them.
#include "vmm.h"

#include <sys/mman.h>

#include <algorithm>

#include "allocate.h"
#include "behaviour.h"
#include "entry_point.h"
#include "physical_memory.h"
#include "work.h"

namespace standin {
namespace {

struct Mapping {
  std::size_t bytes;
  CUmemGenericAllocationHandle handle;
  Id context = 0;                                // that was current when it was made, or 0
  std::map<int, CUmemAccess_flags> access = {};  // by device
};

// Guarded by state().mutex.
std::map<CUdeviceptr, Mapping>& mappings() {
  static auto* const instance = new std::map<CUdeviceptr, Mapping>;
  return *instance;
}

std::map<CUdeviceptr, Mapping>::iterator MappingAt(CUdeviceptr address) {
  auto after = mappings().upper_bound(address);
  if (after == mappings().begin()) return mappings().end();
  const auto found = std::prev(after);
  return address - found->first < found->second.bytes ? found : mappings().end();
}

// Whether a mapping begins before the address and ends behind it.
bool CutsMapping(CUdeviceptr address) {
  const auto found = MappingAt(address);
  return found != mappings().end() && found->first != address;
}

CUresult Reserve(CUdeviceptr* out, std::size_t bytes, std::size_t alignment, CUdeviceptr hint) {
  const Lock lock(state().mutex);
  if (!out) return Behaviour("cuMemAddressReserve.null_output");
  if (bytes == 0) return Behaviour("cuMemAddressReserve.size_zero");
  if (!IsMultipleOfGranularity(bytes)) return Behaviour("cuMemAddressReserve.unaligned");
  if ((alignment & (alignment - 1)) != 0) return Behaviour("cuMemAddressReserve.bad_alignment");
  const std::size_t align = std::max(alignment, BehaviourSize("vmm.granularity"));
  const std::size_t room = bytes + align;
  void* const map = mmap(reinterpret_cast<void*>(hint), room, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto start = reinterpret_cast<CUdeviceptr>(map);
  const CUdeviceptr base = (start + align - 1) / align * align;
  if (base > start) munmap(map, base - start);
  if (start + room > base + bytes) {
    munmap(reinterpret_cast<void*>(base + bytes), start + room - base - bytes);
  }
  AddAllocation(Kind::kReserved, base, bytes, Context{});
  *out = base;
  return CUDA_SUCCESS;
}

CUresult Unreserve(CUdeviceptr base, std::size_t bytes) {
  const Lock lock(state().mutex);
  const auto found = state().allocations.find(base);
  const bool known = found != state().allocations.end() && found->second.bytes == bytes &&
                     found->second.kind == Kind::kReserved;
  if (!known) return Behaviour("cuMemAddressFree.not_reserved");
  const auto first = mappings().lower_bound(base);
  if (first != mappings().end() && first->first < base + bytes) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(base), bytes);
  state().allocations.erase(found);
  return CUDA_SUCCESS;
}

CUresult Map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
             CUmemGenericAllocationHandle handle) {
  const Lock lock(state().mutex);
  if (bytes == 0) return Behaviour("cuMemMap.unaligned");
  const auto found = physical().find(handle);
  if (found == physical().end() || found->second.references == 0) {
    return Behaviour("cuMemRelease.garbage");
  }
  if (offset != 0 || bytes != found->second.bytes) return Behaviour("cuMemMap.part_of_handle");
  if (!IsMultipleOfGranularity(address)) return Behaviour("cuMemMap.unaligned");
  const Allocation* const range = FindAllocation(address);
  const bool reserved =
      range && range->kind == Kind::kReserved && address + bytes <= range->base + range->bytes;
  const auto next = mappings().lower_bound(address);
  const bool taken = MappingAt(address) != mappings().end() ||
                     (next != mappings().end() && next->first < address + bytes);
  if (!reserved || taken) return Behaviour("cuMemMap.not_reserved");
  // No access before cuMemSetAccess: a program that forgets it is noticed.
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
           found->second.fd, static_cast<off_t>(offset)) == MAP_FAILED) {
    return CUDA_ERROR_MAP_FAILED;
  }
  madvise(reinterpret_cast<void*>(address), bytes, MADV_DONTDUMP);
  ++found->second.mappings;
  Context* context = nullptr;
  const bool has_context = CurrentContext(context) == CUDA_SUCCESS;
  mappings()[address] = {bytes, handle, has_context ? context->id : 0};
  return CUDA_SUCCESS;
}

// The addresses stay reserved.
bool MapNothing(CUdeviceptr address, std::size_t bytes) {
  return mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// The next one.
std::map<CUdeviceptr, Mapping>::iterator Forget(std::map<CUdeviceptr, Mapping>::iterator mapping) {
  const CUmemGenericAllocationHandle handle = mapping->second.handle;
  const auto next = mappings().erase(mapping);
  --physical().at(handle).mappings;
  EndPhysicalIfUnused(handle);
  return next;
}

CUresult Unmap(CUdeviceptr address, std::size_t bytes) {
  Lock lock(state().mutex);
  if (BehaviourFlag("cuMemUnmap.synchronizes_context")) {
    Context* context = nullptr;
    if (CurrentContext(context) == CUDA_SUCCESS) WaitFor(lock, PendingOf(*context));
  }
  const Allocation* const range = FindAllocation(address);
  if (bytes == 0 || !IsMultipleOfGranularity(bytes) || !IsMultipleOfGranularity(address) ||
      !range || range->kind != Kind::kReserved || address + bytes > range->base + range->bytes ||
      CutsMapping(address) || CutsMapping(address + bytes)) {
    return Behaviour("cuMemUnmap.not_mapped");
  }
  std::size_t covered = 0;
  for (auto at = mappings().lower_bound(address);
       at != mappings().end() && at->first < address + bytes; ++at) {
    covered += at->second.bytes;
  }
  const CUresult result = covered == bytes ? CUDA_SUCCESS : Behaviour("cuMemUnmap.with_a_hole");
  if (result != CUDA_SUCCESS) return result;
  if (!MapNothing(address, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  for (auto at = mappings().lower_bound(address); covered > 0;) {
    covered -= at->second.bytes;
    at = Forget(at);
  }
  return CUDA_SUCCESS;
}

// The host, which does the devices' work, has the access of the device that has the most.
void SetAccessOf(CUdeviceptr start, Mapping& mapping, const CUmemAccessDesc& access) {
  mapping.access[access.location.id] = access.flags;
  CUmemAccess_flags most = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  for (const auto& [device, flags] : mapping.access) most = std::max(most, flags);
  mprotect(reinterpret_cast<void*>(start), mapping.bytes,
           most == CU_MEM_ACCESS_FLAGS_PROT_NONE        ? PROT_NONE
           : most == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                                                        : PROT_READ);
}

int OwnerOf(const Mapping& mapping) {
  return physical().at(mapping.handle).properties.location.id;
}

// Whether the hardware lets the device that is named reach the memory of the mapping.
bool CanBeGiven(const Mapping& mapping, const CUmemAccessDesc& access) {
  const int owner = OwnerOf(mapping);
  return access.location.id == owner || ArePeers(owner, access.location.id);
}

CUresult SetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                   std::size_t count) {
  const Lock lock(state().mutex);
  if (!access || count == 0 || bytes == 0 || !IsMultipleOfGranularity(bytes)) {
    return Behaviour("cuMemSetAccess.unaligned");
  }
  if (CutsMapping(address) || CutsMapping(address + bytes)) {
    return Behaviour("cuMemSetAccess.part_of_mapping");
  }
  for (CUdeviceptr at = address; at < address + bytes;) {
    const auto mapping = MappingAt(at);
    if (mapping == mappings().end()) return Behaviour("cuMemSetAccess.unaligned");
    for (std::size_t i = 0; i < count; ++i) {
      Device* device = nullptr;
      if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
          FindDevice(access[i].location.id, device) != CUDA_SUCCESS) {
        return Behaviour("cuMemSetAccess.bad_device");
      }
      if (!CanBeGiven(mapping->second, access[i])) return CUDA_ERROR_INVALID_DEVICE;
      if (access[i].location.id != OwnerOf(mapping->second)) {
        if (const CUresult error = Behaviour("cuMemSetAccess.peer")) return error;
      }
    }
    at = mapping->first + mapping->second.bytes;
  }
  for (CUdeviceptr at = address; at < address + bytes;) {
    auto& [start, mapping] = *MappingAt(at);
    for (std::size_t i = 0; i < count; ++i) SetAccessOf(start, mapping, access[i]);
    at = start + mapping.bytes;
  }
  return CUDA_SUCCESS;
}

}  // namespace

bool FindMapping(CUdeviceptr address, CUdeviceptr* base, std::size_t* bytes, int* device) {
  const auto found = MappingAt(address);
  if (found == mappings().end()) return false;
  *base = found->first;
  *bytes = found->second.bytes;
  if (device) *device = physical().at(found->second.handle).properties.location.id;
  return true;
}

void UnmapAllOf(const Context& context) {
  for (auto at = mappings().begin(); at != mappings().end();) {
    const bool goes = at->second.context == context.id && MapNothing(at->first, at->second.bytes);
    at = goes ? Forget(at) : std::next(at);
  }
}

bool IsMappedDecompressible(CUdeviceptr address) {
  constexpr unsigned kDecompress = 2;  // CU_MEM_CREATE_USAGE_HW_DECOMPRESS, from CUDA 12.8 on
  const auto found = MappingAt(address);
  return found != mappings().end() &&
         (physical().at(found->second.handle).properties.allocFlags.usage & kDecompress) != 0;
}

CUmemAccess_flags AccessTo(CUdeviceptr address, int device) {
  const auto found = MappingAt(address);
  if (found == mappings().end()) return CU_MEM_ACCESS_FLAGS_PROT_NONE;
  const auto given = found->second.access.find(device);
  return given == found->second.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : given->second;
}

}  // namespace standin

using namespace standin;

ENTRY(cuMemAddressReserve,
      (CUdeviceptr * out, size_t bytes, size_t alignment, CUdeviceptr hint,
       unsigned long long flags),
      (out, bytes, alignment, hint, flags)) {
  return flags == 0 ? Reserve(out, bytes, alignment, hint) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuMemAddressFree, (CUdeviceptr address, size_t bytes), (address, bytes)) {
  return Unreserve(address, bytes);
}

ENTRY(cuMemMap,
      (CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
       unsigned long long flags),
      (address, bytes, offset, handle, flags)) {
  return flags == 0 ? Map(address, bytes, offset, handle) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuMemUnmap, (CUdeviceptr address, size_t bytes), (address, bytes)) {
  return Unmap(address, bytes);
}

ENTRY(cuMemSetAccess,
      (CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count),
      (address, bytes, access, count)) {
  return SetAccess(address, bytes, access, count);
}

ENTRY(cuMemGetAccess,
      (unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address),
      (flags, location, address)) {
  const Lock lock(state().mutex);
  const auto found = MappingAt(address);
  if (!flags || !location || found == mappings().end()) return CUDA_ERROR_INVALID_VALUE;
  *flags = AccessTo(address, location->id);
  return CUDA_SUCCESS;
}

ENTRY(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * out, void* address),
      (out, address)) {
  const Lock lock(state().mutex);
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  const auto found = MappingAt(at);
  if (!out || found == mappings().end()) {
    return Behaviour(FindAllocation(at) ? "cuMemRetainAllocationHandle.plain_pointer"
                                        : "cuMemRetainAllocationHandle.not_mapped");
  }
  *out = found->second.handle;
  ++physical().at(*out).references;
  return CUDA_SUCCESS;
}
