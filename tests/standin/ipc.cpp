// cuIpc*MemHandle: device memory of one process mapped into another. Both see the same bytes.
#include <unistd.h>

#include <cstring>
#include <tuple>

#include "allocate.h"
#include "behaviour.h"
#include "entry_point.h"

namespace standin {
namespace {

constexpr char kMagic[8] = {'s', 't', 'a', 'n', 'd', 'i', 'n', '1'};

// What a CUipcMemHandle holds: where the owner's device file has the allocation.
struct Content {
  char magic[8];
  pid_t owner;
  int fd;
  std::uint64_t offset;
  std::uint64_t bytes;
  Id buffer_id;
  int device;
};
static_assert(sizeof(Content) <= sizeof(CUipcMemHandle));

struct Import {
  CUdeviceptr base;
  Id context_id;
  unsigned references;
};

// By owner, buffer id and the device that imports. Guarded by state().mutex.
using Key = std::tuple<pid_t, Id, int>;
std::map<Key, Import>& imports() {
  static auto* const instance = new std::map<Key, Import>;
  return *instance;
}

const char* CaseOfExport(const Allocation& allocation, CUdeviceptr address) {
  switch (allocation.kind) {
    case Kind::kDevice:
      return address == allocation.base ? "cuIpcGetMemHandle.live" : "cuIpcGetMemHandle.interior";
    case Kind::kManaged:
      return "cuIpcGetMemHandle.managed";
    case Kind::kPool:
    case Kind::kImportedPool:
    case Kind::kGraph:
    case Kind::kGraphHost:
    case Kind::kGraphManaged:
      return "cuIpcGetMemHandle.async_pointer";
    case Kind::kReserved:
      return "cuIpcGetMemHandle.mapped_range";
    default:
      return "cuIpcGetMemHandle.host_pointer";
  }
}

CUresult Export(CUipcMemHandle* out, CUdeviceptr address) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out) return Behaviour("cuIpcGetMemHandle.null_output");
  const Allocation* const found = FindAllocation(address);
  if (!found || found->freeing) {
    return Behaviour(IsDeviceAddress(address) ? "cuIpcGetMemHandle.freed"
                                              : "cuIpcGetMemHandle.host_pointer");
  }
  if (const CUresult error = Behaviour(CaseOfExport(*found, address))) return error;
  const DeviceMemory& memory = state().devices[static_cast<std::size_t>(found->device)]->memory;
  Content content{};
  std::memcpy(content.magic, kMagic, sizeof(kMagic));
  content.owner = getpid();
  content.fd = memory.fd();
  const bool of_base = BehaviourFlag("ipc.handle_of_interior_equals_base");
  content.offset = memory.OffsetOf(of_base ? found->base : address);
  content.bytes = found->bytes;
  content.buffer_id = found->buffer_id;
  content.device = found->device;
  std::memset(out, 0, sizeof(*out));
  std::memcpy(out, &content, sizeof(content));
  return CUDA_SUCCESS;
}

CUresult Open(CUdeviceptr* out, const CUipcMemHandle& handle, unsigned flags) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
    if (const CUresult error = Behaviour("cuIpcOpenMemHandle.bad_flags")) return error;
  }
  Content content{};
  std::memcpy(&content, &handle, sizeof(content));
  if (std::memcmp(content.magic, kMagic, sizeof(kMagic)) != 0) {
    return Behaviour("cuIpcOpenMemHandle.garbage");
  }
  if (content.owner == getpid()) {
    if (const CUresult error = Behaviour("cuIpcOpenMemHandle.same_process")) return error;
    const auto& all = state().allocations;
    const auto own = std::ranges::find(all, content.buffer_id,
                                       [](const auto& entry) { return entry.second.buffer_id; });
    if (own == all.end()) return Behaviour("cuIpcOpenMemHandle.garbage");
    *out = own->first;
    return CUDA_SUCCESS;
  }
  // cuda.h: opened again, the existing pointer is returned and counted.
  Import& import = imports()[{content.owner, content.buffer_id, context->device}];
  const bool known = import.references > 0 && state().allocations.contains(import.base);
  // cuda.h, cuIpcOpenMemHandle: by one context per device.
  if (known && import.context_id != MemoryOf(*context).id) {
    return Behaviour("cuIpcOpenMemHandle.second_context");
  }
  if (known) {
    if (const CUresult error = Behaviour("cuIpcOpenMemHandle.already_open")) return error;
  } else {
    const CUdeviceptr base = MapOfProcess(content.owner, content.fd, content.offset, content.bytes);
    if (base == 0) return Behaviour("cuIpcOpenMemHandle.garbage");
    AddAllocation(Kind::kIpc, base, content.bytes, *context);
    import = {.base = base, .context_id = MemoryOf(*context).id, .references = 0};
  }
  ++import.references;
  *out = import.base;
  return CUDA_SUCCESS;
}

CUresult Close(CUdeviceptr address) {
  const Lock lock(state().mutex);
  for (auto import = imports().begin(); import != imports().end(); ++import) {
    if (import->second.base != address || import->second.references == 0) continue;
    if (--import->second.references == 0) {
      Release(address);
      imports().erase(import);
    }
    return CUDA_SUCCESS;
  }
  return Behaviour("cuIpcCloseMemHandle.garbage");
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuIpcGetMemHandle, (CUipcMemHandle * out, CUdeviceptr address), (out, address)) {
  return Export(out, address);
}

ENTRY(cuIpcOpenMemHandle, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
      (out, handle, flags)) {
  return Open(out, handle, flags);
}

ENTRY(cuIpcOpenMemHandle_v2, (CUdeviceptr * out, CUipcMemHandle handle, unsigned flags),
      (out, handle, flags)) {
  return Open(out, handle, flags);
}

ENTRY(cuIpcCloseMemHandle, (CUdeviceptr address), (address)) {
  return Close(address);
}
