// cuMemAllocHost, cuMemHostAlloc, cuMemHostRegister: memory of the host that the driver knows.
#include "allocate.h"
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"

namespace standin {
namespace {

CUresult AllocateHost(void** out, std::size_t bytes, unsigned flags) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out) return Behaviour("cuMemHostAlloc.null_output");
  if (bytes == 0) {
    *out = nullptr;
    return Behaviour("cuMemHostAlloc.size_zero");
  }
  if (const CUresult error = CheckAllowedDuringCapture("cuMemAlloc")) return error;
  *out = MapHost(bytes);
  if (!*out) return CUDA_ERROR_OUT_OF_MEMORY;
  // Every device reaches it, whether it was asked for or not.
  AddAllocation(Kind::kHost, reinterpret_cast<CUdeviceptr>(*out), bytes, *context).flags =
      flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

Allocation* FindHost(const void* address, Kind kind) {
  Allocation* const found = FindAllocation(reinterpret_cast<CUdeviceptr>(address));
  return found && found->kind == kind ? found : nullptr;
}

// What of the driver's lies there, or null.
const Allocation* FindIn(CUdeviceptr base, std::size_t bytes) {
  if (const Allocation* const found = FindAllocation(base)) return found;
  const auto next = state().allocations.lower_bound(base);
  const bool overlaps = next != state().allocations.end() && next->first < base + bytes;
  return overlaps ? &next->second : nullptr;
}

constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

CUresult Register(void* address, std::size_t bytes, unsigned flags) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!address || bytes == 0 || (flags & ~kRegisterFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  // CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED is 0.
  if ((flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  const auto base = reinterpret_cast<CUdeviceptr>(address);
  if (const Allocation* const there = FindIn(base, bytes)) {
    return there->kind == Kind::kRegistered ? Behaviour("cuMemHostRegister.twice")
                                            : CUDA_ERROR_INVALID_VALUE;
  }
  AddAllocation(Kind::kRegistered, base, bytes, *context).flags =
      flags | CU_MEMHOSTREGISTER_DEVICEMAP;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuMemAllocHost_v2, (void** out, size_t bytes), (out, bytes)) {
  return AllocateHost(out, bytes, 0);
}

ENTRY(cuMemHostAlloc, (void** out, size_t bytes, unsigned flags), (out, bytes, flags)) {
  return AllocateHost(out, bytes, flags);
}

ENTRY(cuMemFreeHost, (void* address), (address)) {
  const Lock lock(state().mutex);
  if (!address) return Behaviour("cuMemFreeHost.null");
  const auto base = reinterpret_cast<CUdeviceptr>(address);
  const Allocation* const found = FindHost(address, Kind::kHost);
  if (!found || found->base != base) return Behaviour("cuMemFreeHost.not_allocated");
  Release(base);
  return CUDA_SUCCESS;
}

ENTRY(cuMemHostRegister_v2, (void* address, size_t bytes, unsigned flags),
      (address, bytes, flags)) {
  return Register(address, bytes, flags);
}

ENTRY(cuMemHostUnregister, (void* address), (address)) {
  const Lock lock(state().mutex);
  if (!address) return Behaviour("cuMemHostUnregister.null");
  const auto base = reinterpret_cast<CUdeviceptr>(address);
  const Allocation* const found = FindAllocation(base);
  if (!found) return Behaviour("cuMemHostUnregister.not_registered");
  if (found->kind != Kind::kRegistered) return CUDA_ERROR_INVALID_VALUE;
  if (found->base != base) return Behaviour("cuMemHostUnregister.interior");
  Release(base);
  return CUDA_SUCCESS;
}

ENTRY(cuMemHostGetDevicePointer_v2, (CUdeviceptr * out, void* address, unsigned flags),
      (out, address, flags)) {
  const Lock lock(state().mutex);
  if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!FindHost(address, Kind::kHost) && !FindHost(address, Kind::kRegistered)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = reinterpret_cast<CUdeviceptr>(address);
  return CUDA_SUCCESS;
}

ENTRY(cuMemHostGetFlags, (unsigned* out, void* address), (out, address)) {
  const Lock lock(state().mutex);
  const Allocation* const found = FindAllocation(reinterpret_cast<CUdeviceptr>(address));
  const bool pinned = found && (found->kind == Kind::kHost || found->kind == Kind::kRegistered);
  if (!out || (!pinned && !(found && IsManaged(found->kind)))) return CUDA_ERROR_INVALID_VALUE;
  *out = pinned ? found->flags : unsigned{CU_MEMHOSTALLOC_DEVICEMAP};
  return CUDA_SUCCESS;
}
