// cuMemAlloc, cuMemAllocPitch, cuMemAllocManaged, cuMemFree, and what tells of memory as a whole.
#include <string>

#include "allocate.h"
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "graph_memory.h"
#include "pools.h"
#include "settings.h"
#include "vmm.h"
#include "work.h"

namespace standin {
namespace {

constexpr std::size_t kMostPitch = 2147483647;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH

CUresult AllocatePlain(CUdeviceptr* out, std::size_t bytes) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context, "cuMemAlloc.no_context")) return error;
  if (!out) return Behaviour("cuMemAlloc.null_output");
  if (bytes == 0) return Behaviour("cuMemAlloc.size_zero");
  if (const CUresult error = CheckAllowedDuringCapture("cuMemAlloc")) return error;
  if (const Allocation* added = Allocate(*context, Kind::kDevice, bytes)) {
    *out = added->base;
    return CUDA_SUCCESS;
  }
  const auto& device = state().devices[static_cast<std::size_t>(context->device)];
  return Behaviour(device->memory.InPieces(bytes) ? "cuMemAlloc.fragmented"
                                                  : "cuMemAlloc.above_device");
}

CUresult AllocatePitched(CUdeviceptr* out, std::size_t* pitch_out, std::size_t width,
                         std::size_t height, unsigned element_size) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out || !pitch_out) return Behaviour("cuMemAllocPitch.null_output");
  if (element_size != 4 && element_size != 8 && element_size != 16) {
    return Behaviour("cuMemAllocPitch.bad_element_size");
  }
  if (width == 0) return Behaviour("cuMemAllocPitch.zero_width");
  if (height == 0) return Behaviour("cuMemAllocPitch.zero_height");
  if (const CUresult error = CheckAllowedDuringCapture("cuMemAlloc")) return error;
  const std::size_t alignment = BehaviourSize("pitch.alignment");
  const std::size_t pitch = (width + alignment - 1) / alignment * alignment;
  if (pitch < width || pitch > kMostPitch) return Behaviour("cuMemAllocPitch.width_too_large");
  if (pitch > SIZE_MAX / height) return Behaviour("cuMemAllocPitch.above_device");
  const Allocation* const added = Allocate(*context, Kind::kDevice, pitch * height);
  if (!added) return Behaviour("cuMemAllocPitch.above_device");
  *out = added->base;
  *pitch_out = pitch;
  return CUDA_SUCCESS;
}

// The case that freeing `allocation` falls under, or null where it is plainly allowed.
const char* CaseOfFree(const Allocation& allocation) {
  if (allocation.freeing) return "cuMemFree.double";
  switch (allocation.kind) {
    case Kind::kDevice:
      return nullptr;
    case Kind::kManaged:
      return "cuMemFree.managed";
    case Kind::kPool:
    case Kind::kHostPool:
    case Kind::kImportedPool:
    case Kind::kGraph:
    case Kind::kGraphHost:
    case Kind::kGraphManaged:
      return "cuMemFree.async_pointer";
    case Kind::kHost:
    case Kind::kRegistered:
      return "cuMemFree.pinned_host_pointer";
    case Kind::kVariable:
      return "cuMemFree.garbage";
    case Kind::kReserved:
      return "cuMemFree.mapped_range";
    case Kind::kIpc:
      return "cuMemFree.ipc_mapping";
  }
  return "cuMemFree.garbage";
}

CUresult CaseOfFreeUnknown(CUdeviceptr address) {
  if (FindAllocation(address)) return Behaviour("cuMemFree.interior");
  const std::string unknown = CaseOfUnknown(address);
  if (unknown == "freed") return Behaviour("cuMemFree.double");
  return Behaviour(unknown == "host_pointer" ? "cuMemFree.host_pointer" : "cuMemFree.garbage");
}

CUresult Free(CUdeviceptr address) {
  Lock lock(state().mutex);
  Context* context = nullptr;  // and none will do where the behaviour says so
  if (const CUresult error = CurrentContext(context, "cuMemFree.no_context")) return error;
  if (address == 0) return Behaviour("cuMemFree.null");
  const auto found = state().allocations.find(address);
  if (found == state().allocations.end()) return CaseOfFreeUnknown(address);
  Allocation& allocation = found->second;
  if (const char* id = CaseOfFree(allocation)) {
    const bool served =
        allocation.kind == Kind::kManaged || allocation.pool || IsOfGraph(allocation.kind);
    const CUresult result = Behaviour(id);
    if (result != CUDA_SUCCESS || allocation.freeing || !served) return result;
  }
  if (const CUresult error = CheckAllowedDuringCapture("cuMemFree")) return error;
  if (context && allocation.context_id != MemoryOf(*context).id) {
    if (const CUresult error = Behaviour("cuMemFree.other_context")) return error;
  }
  const bool pool = allocation.pool || IsOfGraph(allocation.kind);
  if (!pool && BehaviourFlag("cuMemFree.synchronizes_context")) {
    // Another thread that frees it during the wait frees it twice.
    allocation.freeing = true;
    const bool all_contexts = BehaviourFlag("cuMemFree.synchronizes_other_contexts");
    const bool all_devices = BehaviourFlag("cuMemFree.synchronizes_other_devices");
    Fences pending;
    for (const auto& [handle, other] : state().contexts) {
      const bool concerned = other.get() == context || handle == allocation.context ||
                             (other->device == allocation.device ? all_contexts : all_devices);
      const Fences more = concerned ? PendingOf(*other) : Fences{};
      pending.insert(pending.end(), more.begin(), more.end());
    }
    WaitFor(lock, pending);
  }
  if (IsOfGraph(allocation.kind)) return FreeGraphMemory(address);
  if (allocation.pool) NotePlainFree(allocation);
  Release(address);
  return CUDA_SUCCESS;
}

CUresult AllocateManaged(CUdeviceptr* out, std::size_t bytes, unsigned flags) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out || bytes == 0) return Behaviour("cuMemAllocManaged.size_zero");
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) {
    return Behaviour("cuMemAllocManaged.bad_flags");
  }
  if (const CUresult error = CheckAllowedDuringCapture("cuMemAlloc")) return error;
  void* const map = MapHost(bytes);
  if (!map) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = AddAllocation(Kind::kManaged, reinterpret_cast<CUdeviceptr>(map), bytes, *context).base;
  return CUDA_SUCCESS;
}

CUresult Information(std::size_t* free, std::size_t* total) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context, "cuMemGetInfo.no_context")) return error;
  const char* const missing = !free && !total ? "cuMemGetInfo.null_both"
                              : !free         ? "cuMemGetInfo.null_free"
                              : !total        ? "cuMemGetInfo.null_total"
                                              : nullptr;
  if (missing) {
    if (const CUresult error = Behaviour(missing)) return error;
  }
  if (const CUresult error = CheckAllowedDuringCapture("cuMemGetInfo")) return error;
  Device& device = *state().devices[static_cast<std::size_t>(context->device)];
  DeviceMemory& memory = device.memory;
  if (free) *free = memory.free();
  if (total) *total = memory.total();
  if (const std::size_t withheld = settings().withheld_of(device.number)) {
    if (free && !BehaviourFlag("driver_limit.lowers_free")) *free += withheld;
    if (total && BehaviourFlag("driver_limit.lowers_total")) *total -= withheld;
  }
  return CUDA_SUCCESS;
}

CUresult AddressRange(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context, "cuMemGetAddressRange.no_context"))
    return error;
  const Allocation* const found = FindAllocation(address);
  if (!found || found->freeing) {
    return Behaviour(std::string("cuMemGetAddressRange.") + CaseOfUnknown(address));
  }
  if (const CUresult error = CheckAllowedDuringCapture("cuMemGetAddressRange")) return error;
  CUdeviceptr start = found->base;
  std::size_t bytes = found->bytes;
  if (found->kind == Kind::kReserved && !FindMapping(address, &start, &bytes)) {
    return Behaviour("cuMemGetAddressRange.never_mapped");
  }
  if (!BehaviourFlag("cuMemGetAddressRange.reports_requested_size")) {
    const std::size_t rounding = BehaviourSize("size.rounding");
    bytes = (bytes + rounding - 1) / rounding * rounding;
  }
  if (base) *base = start;
  if (size) *size = bytes;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuMemAlloc_v2, (CUdeviceptr * out, size_t bytes), (out, bytes)) {
  return AllocatePlain(out, bytes);
}

ENTRY(cuMemAllocPitch_v2,
      (CUdeviceptr * out, size_t* pitch, size_t width, size_t height, unsigned element_size),
      (out, pitch, width, height, element_size)) {
  return AllocatePitched(out, pitch, width, height, element_size);
}

ENTRY(cuMemAllocManaged, (CUdeviceptr * out, size_t bytes, unsigned flags), (out, bytes, flags)) {
  return AllocateManaged(out, bytes, flags);
}

ENTRY(cuMemFree_v2, (CUdeviceptr address), (address)) {
  return Free(address);
}

ENTRY(cuMemGetInfo_v2, (size_t * free, size_t* total), (free, total)) {
  return Information(free, total);
}

ENTRY(cuMemGetAddressRange_v2, (CUdeviceptr * base, size_t* size, CUdeviceptr address),
      (base, size, address)) {
  return AddressRange(base, size, address);
}

// The forms of CUDA 2, whose device pointers and sizes have 32 bits.

ENTRY(cuMemAlloc, (CUdeviceptr_v1 * out, unsigned bytes), (out, bytes)) {
  (void)out, (void)bytes;
  return Behaviour("any.legacy_32_bit_form");
}

ENTRY(cuMemAllocPitch,
      (CUdeviceptr_v1 * out, unsigned* pitch, unsigned width, unsigned height, unsigned element),
      (out, pitch, width, height, element)) {
  (void)out, (void)pitch, (void)width, (void)height, (void)element;
  return Behaviour("any.legacy_32_bit_form");
}

ENTRY(cuMemFree, (CUdeviceptr_v1 address), (address)) {
  (void)address;
  return Behaviour("any.legacy_32_bit_form");
}

ENTRY(cuMemGetInfo, (unsigned* free, unsigned* total), (free, total)) {
  (void)free, (void)total;
  return Behaviour("any.legacy_32_bit_form");
}

ENTRY(cuMemGetAddressRange, (CUdeviceptr_v1 * base, unsigned* size, CUdeviceptr_v1 address),
      (base, size, address)) {
  (void)base, (void)size, (void)address;
  return Behaviour("any.legacy_32_bit_form");
}
