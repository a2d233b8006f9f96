// cuOccupancy*: how much of a multiprocessor a kernel may take. Kernels have no needs of their own
// here but the 1 KiB of shared memory that the device keeps of each block; the figures are those of
// compute capability 9.0.
#include "occupancy.h"

#include <algorithm>

#include "entry_point.h"
#include "modules.h"

namespace standin {
namespace {

constexpr int kThreads = 2048;  // of a multiprocessor
constexpr int kMostBlocks = 32;
constexpr int kLargestBlock = 1024;
constexpr int kWarp = 32;
constexpr std::size_t kShared = 228 << 10;
constexpr std::size_t kReserved = 1 << 10;  // of each block
constexpr int kLargestCluster = 8;          // of the portable size

int RoundUp(int threads) {
  return (threads + kWarp - 1) / kWarp * kWarp;
}

// What a launch of the function may have at most.
struct Most {
  int block = 0;
  std::size_t shared = 0;
};

CUresult Find(CUfunction handle, Most& most) {
  const Lock lock(state().mutex);
  const Function* function = nullptr;
  if (const CUresult error = FindFunction(handle, function)) return error;
  most = {static_cast<int>(function->needs.most_threads), MostDynamicShared(*function)};
  return CUDA_SUCCESS;
}

CUresult Active(int* out, CUfunction function, int block_size, std::size_t shared) {
  Most most;
  if (!out || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = Find(function, most)) return error;
  *out = shared > most.shared ? 0 : BlocksAtOnce(block_size, shared);
  return CUDA_SUCCESS;
}

// cuda.h: the block size that gives the most threads, the largest of several.
CUresult Potential(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                   std::size_t shared, int limit) {
  if (!grid || !block || limit < 0) return CUDA_ERROR_INVALID_VALUE;
  Most allowed;
  if (const CUresult error = Find(function, allowed)) return error;
  int most = 0;
  const int largest = limit == 0 ? allowed.block : std::min(limit, allowed.block);
  for (int size = RoundUp(largest); size > 0; size -= kWarp) {
    const int tried = std::min(size, largest);
    const int blocks = BlocksAtOnce(tried, shared_of ? shared_of(tried) : shared);
    if (blocks * tried <= most) continue;
    most = blocks * tried;
    *block = tried;
    *grid = blocks * static_cast<int>(kMultiprocessors);
  }
  return most == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace

int BlocksAtOnce(int block_size, std::size_t shared) {
  if (block_size > kLargestBlock || shared + kReserved > kShared) return 0;
  const auto by_shared = static_cast<int>(kShared / (shared + kReserved));
  return std::min({kMostBlocks, kThreads / RoundUp(block_size), by_shared});
}

}  // namespace standin

using namespace standin;

ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor,
      (int* out, CUfunction function, int block_size, size_t shared_bytes),
      (out, function, block_size, shared_bytes)) {
  return Active(out, function, block_size, shared_bytes);
}

ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
      (int* out, CUfunction function, int block_size, size_t shared_bytes, unsigned flags),
      (out, function, block_size, shared_bytes, flags)) {
  (void)flags;
  return Active(out, function, block_size, shared_bytes);
}

ENTRY(cuOccupancyMaxPotentialBlockSize,
      (int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of, size_t shared,
       int limit),
      (grid, block, function, shared_of, shared, limit)) {
  return Potential(grid, block, function, shared_of, shared, limit);
}

ENTRY(cuOccupancyMaxPotentialBlockSizeWithFlags,
      (int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of, size_t shared,
       int limit, unsigned flags),
      (grid, block, function, shared_of, shared, limit, flags)) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) return CUDA_ERROR_INVALID_VALUE;
  return Potential(grid, block, function, shared_of, shared, limit);
}

ENTRY(cuOccupancyAvailableDynamicSMemPerBlock,
      (size_t * out, CUfunction function, int blocks, int block_size),
      (out, function, blocks, block_size)) {
  if (!out || blocks <= 0 || block_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  Most most;
  if (const CUresult error = Find(function, most)) return error;
  if (blocks > BlocksAtOnce(block_size, 0)) return CUDA_ERROR_INVALID_VALUE;
  // A launch may ask for no more than the function is allowed.
  *out = std::min(kShared / static_cast<std::size_t>(blocks) - kReserved, most.shared);
  return CUDA_SUCCESS;
}

ENTRY(cuOccupancyMaxPotentialClusterSize,
      (int* out, CUfunction function, const CUlaunchConfig* config), (out, function, config)) {
  if (!out || !config) return CUDA_ERROR_INVALID_VALUE;
  Most most;
  if (const CUresult error = Find(function, most)) return error;
  *out = kLargestCluster;
  return CUDA_SUCCESS;
}

ENTRY(cuOccupancyMaxActiveClusters, (int* out, CUfunction function, const CUlaunchConfig* config),
      (out, function, config)) {
  if (!out || !config) return CUDA_ERROR_INVALID_VALUE;
  Most most;
  if (const CUresult error = Find(function, most)) return error;
  unsigned cluster = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& of = attribute.value.clusterDim;
    cluster = of.x * of.y * of.z;
  }
  const auto block = std::uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ;
  if (cluster == 0 || block == 0 || block > kLargestBlock) return CUDA_ERROR_INVALID_VALUE;
  const int blocks = BlocksAtOnce(static_cast<int>(block), config->sharedMemBytes);
  *out = blocks * static_cast<int>(kMultiprocessors / cluster);
  return CUDA_SUCCESS;
}
