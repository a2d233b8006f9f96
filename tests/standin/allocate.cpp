#include "allocate.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "graph_memory.h"
#include "pools.h"

namespace standin {
namespace {

std::uintptr_t PageOf(CUdeviceptr address) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return address / page * page;
}

// An IPC mapping need not begin at a page.
void Unmap(const Allocation& allocation) {
  const std::uintptr_t start = PageOf(allocation.base);
  munmap(reinterpret_cast<void*>(start), allocation.base + allocation.bytes - start);
}

// mincore tells a mapped page from an unmapped one without touching it.
bool IsMapped(CUdeviceptr address) {
  unsigned char residency = 0;
  const int result = mincore(reinterpret_cast<void*>(PageOf(address)), 1, &residency);
  return result == 0 || errno != ENOMEM;
}

}  // namespace

Allocation* Allocate(Context& context, Kind kind, std::size_t bytes) {
  DeviceMemory& memory = state().devices[static_cast<std::size_t>(context.device)]->memory;
  const auto base = memory.Take(bytes);
  return base ? &AddAllocation(kind, *base, bytes, context) : nullptr;
}

void Release(CUdeviceptr base) {
  const auto found = state().allocations.find(base);
  if (found == state().allocations.end()) return;
  const Allocation allocation = found->second;
  state().allocations.erase(found);
  switch (allocation.kind) {
    case Kind::kDevice:
    case Kind::kPool:
      state().devices[static_cast<std::size_t>(allocation.device)]->memory.Give(base,
                                                                                allocation.bytes);
      if (allocation.kind == Kind::kPool) KeepFreed(allocation);
      break;
    case Kind::kGraph:
      EndGraphBlock(base);
      break;
    case Kind::kManaged:
    case Kind::kHost:
    case Kind::kIpc:
      Unmap(allocation);
      break;
    case Kind::kRegistered:
    case Kind::kReserved:
      break;
  }
}

void ReleaseAllOf(const Context& context) {
  std::vector<CUdeviceptr> bases;
  for (const auto& [base, allocation] : state().allocations) {
    // cuda.h, cuCtxDestroy: what cuMemAllocAsync gave is no context's.
    const bool owned = allocation.context_id == context.id && allocation.kind != Kind::kReserved &&
                       allocation.kind != Kind::kPool;
    if (owned) bases.push_back(base);
  }
  for (const CUdeviceptr base : bases) Release(base);
  ReleaseArraysOf(context);
}

bool IsDeviceAddress(CUdeviceptr address) {
  for (const auto& device : state().devices) {
    if (device->memory.Contains(address)) return true;
  }
  return false;
}

const char* CaseOfUnknown(CUdeviceptr address) {
  if (IsDeviceAddress(address)) return "freed";
  return IsMapped(address) ? "host_pointer" : "never_mapped";
}

void* MapHost(std::size_t bytes) {
  void* const map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return map == MAP_FAILED ? nullptr : map;
}

}  // namespace standin
