#include "allocate.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "graph_memory.h"
#include "other_process.h"
#include "pools.h"
#include "work.h"

namespace standin {
namespace {

std::uintptr_t PageOf(CUdeviceptr address) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return address / page * page;
}

// Pages of the host that are to go once the work that may still use them is done.
struct Unused {
  std::uintptr_t start;
  std::size_t bytes;
  Fences after;
};

// Guarded by state().mutex.
std::vector<Unused>& unused() {
  static auto* const instance = new std::vector<Unused>;
  return *instance;
}

Fences PendingOfAll() {
  Fences pending;
  for (const auto& [handle, context] : state().contexts) {
    const Fences more = PendingOf(*context);
    pending.insert(pending.end(), more.begin(), more.end());
  }
  return pending;
}

// A program may free pinned memory that queued work still uses. Whether the driver waits for that
// work is not known; it does not crash. So nothing waits here, and the pages stay: they go with the
// first such call after the work is done. An IPC mapping need not begin at a page.
void UnmapWhenUnused(const Allocation& allocation) {
  const std::uintptr_t start = PageOf(allocation.base);
  unused().push_back({start, allocation.base + allocation.bytes - start, PendingOfAll()});
  std::erase_if(unused(), [](const Unused& pages) {
    const bool done = AllDone(pages.after);
    if (done) munmap(reinterpret_cast<void*>(pages.start), pages.bytes);
    return done;
  });
}

// mincore tells a mapped page from an unmapped one without touching it.
bool IsMapped(CUdeviceptr address) {
  unsigned char residency = 0;
  const int result = mincore(reinterpret_cast<void*>(PageOf(address)), 1, &residency);
  return result == 0 || errno != ENOMEM;
}

}  // namespace

Allocation* Allocate(Context& context, Kind kind, std::size_t bytes) {
  return AllocateOn(context.device, context, kind, bytes);
}

Allocation* AllocateOn(int device, Context& context, Kind kind, std::size_t bytes) {
  DeviceMemory& memory = state().devices[static_cast<std::size_t>(device)]->memory;
  const auto base = memory.Take(bytes);
  if (!base) return nullptr;
  Allocation& added = AddAllocation(kind, *base, bytes, context);
  added.device = device;
  return &added;
}

void Release(CUdeviceptr base) {
  const auto found = state().allocations.find(base);
  if (found == state().allocations.end()) return;
  const Allocation allocation = found->second;
  state().allocations.erase(found);
  switch (allocation.kind) {
    case Kind::kDevice:
    case Kind::kVariable:
    case Kind::kPool:
      state().devices[static_cast<std::size_t>(allocation.device)]->memory.Give(base,
                                                                                allocation.bytes);
      if (allocation.kind == Kind::kPool) KeepFreed(allocation);
      break;
    case Kind::kGraph:
    case Kind::kGraphHost:
    case Kind::kGraphManaged:
      EndGraphBlock(base);
      break;
    case Kind::kManaged:
    case Kind::kHostPool:
    case Kind::kHost:
    case Kind::kIpc:
    case Kind::kImportedPool:
      UnmapWhenUnused(allocation);
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
                       !allocation.pool;
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

CUdeviceptr MapOfProcess(pid_t owner, int fd, std::uint64_t offset, std::uint64_t bytes) {
  const int file = OpenFileOf(owner, fd);
  if (file < 0) return 0;
  const std::uint64_t within = offset % static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  void* const map = mmap(nullptr, within + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
                         static_cast<off_t>(offset - within));
  close(file);
  if (map != MAP_FAILED) madvise(map, within + bytes, MADV_DONTDUMP);
  return map == MAP_FAILED ? 0 : reinterpret_cast<CUdeviceptr>(map) + within;
}

void* MapHost(std::size_t bytes) {
  void* const map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return map == MAP_FAILED ? nullptr : map;
}

}  // namespace standin
