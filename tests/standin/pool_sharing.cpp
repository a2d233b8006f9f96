// cuMemPoolExport*, cuMemPoolImport*: pools whose allocations several processes use. Nothing is
// allocated from an imported pool; single allocations of its owner are mapped into it.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <optional>

#include "allocate.h"
#include "entry_point.h"
#include "pools.h"

namespace standin {
namespace {

constexpr char kPoolMagic[8] = {'s', 't', 'a', 'n', 'd', 'i', 'n', 'p'};
constexpr char kPointerMagic[8] = {'s', 't', 'a', 'n', 'd', 'i', 'n', 'a'};

// What the file of an exported pool holds. The key is the same in all processes that share it.
struct PoolContent {
  char magic[8];
  std::uint64_t key;
  int device;
};

// What a CUmemPoolPtrExportData holds: where the owner's device file has the allocation.
struct PointerContent {
  char magic[8];
  std::uint64_t key;
  pid_t owner;
  int fd;
  std::uint64_t offset;
  std::uint64_t bytes;
};
static_assert(sizeof(PointerContent) <= sizeof(CUmemPoolPtrExportData));

std::uint64_t NewKey() {
  static std::atomic<std::uint32_t> last = 0;
  return (static_cast<std::uint64_t>(getpid()) << 32) | ++last;
}

// The new file, which is the caller's; -1 when there is none.
int FileWith(const PoolContent& content) {
  const int fd = memfd_create("standin-pool", MFD_CLOEXEC);
  if (fd < 0 || pwrite(fd, &content, sizeof(content), 0) == sizeof(content)) return fd;
  close(fd);
  return -1;
}

std::optional<PoolContent> ContentOf(int fd) {
  PoolContent content{};
  const bool whole = pread(fd, &content, sizeof(content), 0) == sizeof(content);
  const bool ours = whole && std::memcmp(content.magic, kPoolMagic, sizeof(kPoolMagic)) == 0;
  return ours ? std::optional(content) : std::nullopt;
}

CUresult ExportPool(void* out, CUmemoryPool handle, CUmemAllocationHandleType type,
                    unsigned long long flags) {
  const Lock lock(state().mutex);
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  const bool shareable = (pool->handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
  if (!out || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !shareable) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (pool->key == 0) pool->key = NewKey();
  PoolContent content{.magic = {}, .key = pool->key, .device = pool->device};
  std::memcpy(content.magic, kPoolMagic, sizeof(kPoolMagic));
  const int fd = FileWith(content);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memcpy(out, &fd, sizeof(fd));
  return CUDA_SUCCESS;
}

// The file stays the caller's.
CUresult ImportPool(CUmemoryPool* out, void* file, CUmemAllocationHandleType type,
                    unsigned long long flags) {
  const Lock lock(state().mutex);
  if (!out || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto content = ContentOf(static_cast<int>(reinterpret_cast<std::intptr_t>(file)));
  Device* device = nullptr;
  if (!content || FindDevice(content->device, device) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto pool = std::make_shared<Pool>();
  pool->device = content->device;
  pool->imported = true;
  pool->key = content->key;
  *out = AddTo(pools(), std::move(pool));
  return CUDA_SUCCESS;
}

// Of a pool that has been exported.
CUresult ExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  const Lock lock(state().mutex);
  const Allocation* const found = FindAllocation(address);
  if (!out || !found || found->freeing || found->base != address || found->kind != Kind::kPool) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(found->pool, pool)) return error;
  if (pool->key == 0) return CUDA_ERROR_INVALID_VALUE;
  const DeviceMemory& memory = state().devices[static_cast<std::size_t>(found->device)]->memory;
  PointerContent content{.magic = {},
                         .key = pool->key,
                         .owner = getpid(),
                         .fd = memory.fd(),
                         .offset = memory.OffsetOf(address),
                         .bytes = found->bytes};
  std::memcpy(content.magic, kPointerMagic, sizeof(kPointerMagic));
  std::memset(out, 0, sizeof(*out));
  std::memcpy(out, &content, sizeof(content));
  return CUDA_SUCCESS;
}

// The data must be of an allocation of the same pool.
CUresult ImportPointer(CUdeviceptr* out, CUmemoryPool handle, const CUmemPoolPtrExportData* data) {
  const Lock lock(state().mutex);
  std::shared_ptr<Pool> pool;
  if (const CUresult error = FindPool(handle, pool)) return error;
  if (!out || !data || !pool->imported) return CUDA_ERROR_INVALID_VALUE;
  PointerContent content{};
  std::memcpy(&content, data, sizeof(content));
  const bool ours = std::memcmp(content.magic, kPointerMagic, sizeof(kPointerMagic)) == 0;
  if (!ours || content.key != pool->key) return CUDA_ERROR_INVALID_VALUE;
  const CUdeviceptr base = MapOfProcess(content.owner, content.fd, content.offset, content.bytes);
  if (base == 0) return CUDA_ERROR_INVALID_VALUE;
  Context none{};  // it is no context's, and none need be current (cuda-python's IPC tests)
  none.device = pool->device;
  AddAllocation(Kind::kImportedPool, base, content.bytes, none).pool = handle;
  *out = base;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuMemPoolExportToShareableHandle,
      (void* out, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags),
      (out, pool, type, flags)) {
  return ExportPool(out, pool, type, flags);
}

ENTRY(cuMemPoolImportFromShareableHandle,
      (CUmemoryPool * out, void* file, CUmemAllocationHandleType type, unsigned long long flags),
      (out, file, type, flags)) {
  return ImportPool(out, file, type, flags);
}

ENTRY(cuMemPoolExportPointer, (CUmemPoolPtrExportData * out, CUdeviceptr address), (out, address)) {
  return ExportPointer(out, address);
}

ENTRY(cuMemPoolImportPointer, (CUdeviceptr * out, CUmemoryPool pool, CUmemPoolPtrExportData* data),
      (out, pool, data)) {
  return ImportPointer(out, pool, data);
}
