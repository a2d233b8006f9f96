// The physical memory of graphs, which counts on the device: taken at the first launch, kept for
// further launches of any graph, given back by cuDeviceGraphMemTrim. And cuDevice*GraphMem*.
#include "graph_memory.h"

#include <sys/mman.h>

#include <algorithm>

#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "work.h"

namespace standin {
namespace {

// Of one device, beside what blocks have.
struct Cache {
  std::size_t idle = 0;  // bytes that no block has
  std::size_t used_high = 0;
  std::size_t reserved_high = 0;
};

// Guarded by state().mutex, as all here.
std::map<int, Cache>& caches() {
  static auto* const instance = new std::map<int, Cache>;
  return *instance;
}

// Those that are held or allocated, or may still be in use.
std::map<CUdeviceptr, std::shared_ptr<GraphBlock>>& blocks() {
  static auto* const instance = new std::map<CUdeviceptr, std::shared_ptr<GraphBlock>>;
  return *instance;
}

DeviceMemory& MemoryOf(int device) {
  return state().devices[static_cast<std::size_t>(device)]->memory;
}

bool IsIdle(const GraphBlock& block) {
  return !block.allocated && AllDone(block.busy);
}

// The physical memory of the device's blocks that count.
template <typename Counts>
std::size_t BytesOfBlocks(int device, Counts counts) {
  std::size_t bytes = 0;
  for (const auto& [base, block] : blocks()) {
    if (block->mapped && block->device == device && counts(*block)) bytes += block->bytes;
  }
  return bytes;
}

// CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: what is freed is not used, though its block keeps it.
std::size_t UsedOf(int device) {
  return BytesOfBlocks(device, [](const GraphBlock& block) { return !IsIdle(block); });
}

std::size_t ReservedOf(int device) {
  const auto all = [](const GraphBlock&) { return true; };
  return BytesOfBlocks(device, all) + caches()[device].idle;
}

// When blocks are about to be used.
void NoteHighest(int device, const std::vector<GraphBlock*>& wanted) {
  Cache& cache = caches()[device];
  const std::size_t used = BytesOfBlocks(device, [&](const GraphBlock& block) {
    return !IsIdle(block) || std::find(wanted.begin(), wanted.end(), &block) != wanted.end();
  });
  cache.used_high = std::max(cache.used_high, used);
  cache.reserved_high = std::max(cache.reserved_high, ReservedOf(device));
}

void Unmap(GraphBlock& block) {
  if (!block.mapped) return;
  block.mapped = false;
  caches()[block.device].idle += block.bytes;
}

// Nobody holds or uses these any more; their physical memory stays with the device's graphs.
void ForgetUnheld() {
  for (auto each = blocks().begin(); each != blocks().end();) {
    GraphBlock& block = *each->second;
    if (block.holders == 0 && IsIdle(block)) {
      Unmap(block);
      each = blocks().erase(each);
    } else {
      ++each;
    }
  }
}

void ForgetAddress(const GraphBlock& block) {
  if (block.holders == 0 && !block.allocated) state().allocations.erase(block.base);
}

void Trim(int device) {
  ForgetUnheld();
  for (const auto& [base, block] : blocks()) {
    if (block->device != device || !block->mapped || !IsIdle(*block)) continue;
    Unmap(*block);
    block->range->Forget();
  }
  if (device == kNoDevice) return;
  Cache& cache = caches()[device];
  MemoryOf(device).Discount(cache.idle);
  cache.idle = 0;
}

// Takes the physical memory of what is freed, until `enough` of it is idle.
template <typename May>
void TakeBack(int device, const std::vector<GraphBlock*>& except, std::size_t enough, May may) {
  for (const auto& [base, block] : blocks()) {
    if (caches()[device].idle >= enough) return;
    const bool wanted = std::find(except.begin(), except.end(), block.get()) != except.end();
    const bool freed = block->mapped && !block->allocated && block->device == device;
    if (freed && !wanted && may(*block)) Unmap(*block);
  }
}

// Gives the device's blocks its memory. Those of no device have theirs.
CUresult MapBlocksOf(int device, const std::vector<GraphBlock*>& wanted, const Stream& stream,
                     Fences& after) {
  if (device == kNoDevice) return CUDA_SUCCESS;
  std::size_t need = 0;
  for (const GraphBlock* block : wanted) {
    if (block->device == device && !block->mapped) need += block->bytes;
  }
  std::size_t& idle = caches()[device].idle;
  TakeBack(device, wanted, need, [&](const GraphBlock& block) {
    return AllDone(block.busy) || block.last_stream == stream.id;
  });
  if (need > idle && MemoryOf(device).Count(need - idle)) idle = need;
  TakeBack(device, wanted, need, [&](const GraphBlock& block) {
    after.insert(after.end(), block.busy.begin(), block.busy.end());
    return true;
  });
  if (need > idle && MemoryOf(device).Count(need - idle)) idle = need;
  if (need > idle) return Behaviour("cuMemAllocAsync.above_device");
  idle -= need;
  for (GraphBlock* block : wanted) {
    if (block->device == device) block->mapped = true;
  }
  NoteHighest(device, wanted);
  return CUDA_SUCCESS;
}

CUresult GetAttribute(CUdevice ordinal, CUgraphMem_attribute attribute, cuuint64_t* out) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckAllowedDuringCapture("cuDeviceGetGraphMemAttribute")) {
    return error;
  }
  ForgetUnheld();
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *out = UsedOf(ordinal);
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *out = caches()[ordinal].used_high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *out = ReservedOf(ordinal);
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *out = caches()[ordinal].reserved_high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// cuda.h: a high watermark can only be reset to zero. It begins again at what there is now.
CUresult SetAttribute(CUdevice ordinal, CUgraphMem_attribute attribute, const cuuint64_t* value) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (!value || *value != 0) return CUDA_ERROR_INVALID_VALUE;
  ForgetUnheld();
  Cache& cache = caches()[ordinal];
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      cache.used_high = UsedOf(ordinal);
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      cache.reserved_high = ReservedOf(ordinal);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

GraphAddresses::GraphAddresses(std::size_t bytes) : bytes_(bytes) {
  const std::size_t alignment = BehaviourSize("address.large_alignment");
  room_ = bytes + alignment;
  map_ = mmap(nullptr, room_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
              -1, 0);
  if (map_ == MAP_FAILED) return;
  madvise(map_, room_, MADV_DONTDUMP);
  address_ = (reinterpret_cast<CUdeviceptr>(map_) + alignment - 1) / alignment * alignment;
}

GraphAddresses::~GraphAddresses() {
  if (map_ != MAP_FAILED) munmap(map_, room_);
}

void GraphAddresses::Forget() {
  madvise(reinterpret_cast<void*>(address_), bytes_, MADV_DONTNEED);
}

CUresult NewGraphBlock(const Context& context, Kind kind, std::size_t bytes, CUgraph owner,
                       std::shared_ptr<GraphBlock>& out) {
  const CUresult none = Behaviour("cuMemAllocAsync.above_device");
  const bool of_device = kind == Kind::kGraph;
  if (of_device && bytes > MemoryOf(context.device).total()) return none;
  const std::size_t rounding = BehaviourSize("size.rounding");
  const std::size_t rounded = (bytes + rounding - 1) / rounding * rounding;
  auto range = std::make_shared<GraphAddresses>(rounded);
  const CUdeviceptr base = range->address();
  if (base == 0) return none;
  out = std::make_shared<GraphBlock>(GraphBlock{.range = std::move(range),
                                                .base = base,
                                                .bytes = rounded,
                                                .device = of_device ? context.device : kNoDevice,
                                                .owner = owner});
  blocks()[base] = out;
  AddAllocation(kind, base, bytes, context);
  return CUDA_SUCCESS;
}

std::shared_ptr<GraphBlock> FindGraphBlock(CUdeviceptr base) {
  const auto found = blocks().find(base);
  const bool known = found != blocks().end() && state().allocations.contains(base);
  return known ? found->second : nullptr;
}

CUresult AddFreeOf(GraphBlock& block, const Graph& graph) {
  const bool own = block.owner == graph.handle;
  const bool twice = own && block.freed_by_owner;
  if (twice || (own ? block.freed_by_others : block.freed_by_owner)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& node : graph.nodes) {
    const auto* const other = std::get_if<FreeNode>(&node->parameters);
    if (other && other->block.get() == &block) return CUDA_ERROR_INVALID_VALUE;
  }
  (own ? block.freed_by_owner : block.freed_by_others) = true;
  return CUDA_SUCCESS;
}

void LetGo(GraphBlock& block) {
  --block.holders;
  ForgetAddress(block);
  ForgetUnheld();
}

CUresult MapBlocks(const std::vector<GraphBlock*>& wanted, const Stream& stream, Fences& after) {
  ForgetUnheld();
  std::set<int> devices;
  for (const GraphBlock* block : wanted) {
    if (block->gone) return CUDA_ERROR_INVALID_VALUE;
    devices.insert(block->device);
    after.insert(after.end(), block->busy.begin(), block->busy.end());
  }
  for (const int device : devices) {
    if (const CUresult error = MapBlocksOf(device, wanted, stream, after)) return error;
  }
  return CUDA_SUCCESS;
}

CUresult FreeGraphMemory(CUdeviceptr base) {
  const std::shared_ptr<GraphBlock> block = FindGraphBlock(base);
  if (!block || !block->allocated) return Behaviour("cuMemFree.double");
  block->allocated = false;
  ForgetAddress(*block);
  return CUDA_SUCCESS;
}

CUresult FreeGraphMemoryAsync(CUdeviceptr base, Stream& stream) {
  const std::shared_ptr<GraphBlock> block = FindGraphBlock(base);
  if (!block || !block->allocated) return Behaviour("cuMemFreeAsync.double");
  block->allocated = false;
  block->last_stream = stream.id;
  block->busy.push_back(Enqueue(stream, [range = block->range] {}));
  ForgetAddress(*block);
  return CUDA_SUCCESS;
}

void EndGraphBlock(CUdeviceptr base) {
  const auto found = blocks().find(base);
  if (found == blocks().end()) return;
  const std::shared_ptr<GraphBlock> block = found->second;
  blocks().erase(found);
  block->gone = true;
  block->allocated = false;
  Unmap(*block);
  Trim(block->device);
}

void CollectBlocks(const ExecGraph& graph, std::vector<GraphBlock*>& allocated,
                   std::vector<GraphBlock*>& freed) {
  for (const ExecNode& node : graph.nodes) {
    if (const auto* allocation = std::get_if<AllocationNode>(node.parameters.get())) {
      allocated.push_back(allocation->block.get());
    } else if (const auto* free = std::get_if<FreeNode>(node.parameters.get())) {
      freed.push_back(free->block.get());
    }
    for (const ExecGraph& inner : node.inner) CollectBlocks(inner, allocated, freed);
  }
}

void HoldBlocks(const ExecGraph& graph) {
  std::vector<GraphBlock*> allocated;
  std::vector<GraphBlock*> freed;
  CollectBlocks(graph, allocated, freed);
  for (GraphBlock* block : allocated) ++block->holders;
}

void LetGoOfBlocks(const ExecGraph& graph) {
  std::vector<GraphBlock*> allocated;
  std::vector<GraphBlock*> freed;
  CollectBlocks(graph, allocated, freed);
  for (GraphBlock* block : allocated) LetGo(*block);
}

}  // namespace standin

using namespace standin;

ENTRY(cuDeviceGetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute attribute, void* value),
      (device, attribute, value)) {
  return GetAttribute(device, attribute, static_cast<cuuint64_t*>(value));
}

ENTRY(cuDeviceSetGraphMemAttribute, (CUdevice device, CUgraphMem_attribute attribute, void* value),
      (device, attribute, value)) {
  return SetAttribute(device, attribute, static_cast<cuuint64_t*>(value));
}

ENTRY(cuDeviceGraphMemTrim, (CUdevice ordinal), (ordinal)) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  Trim(ordinal);
  return CUDA_SUCCESS;
}
