// What NCCL takes of a GPU beside the program's tensors. NCCL does not run on the software GPU, so
// these are figures that others have published.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/fit/gpus.h"

namespace cubfc::cli::fit {

// Bytes of one GPU.
struct Nccl {
  std::uint64_t least = 0;
  std::uint64_t most = 0;
};

// What NCCL takes for a process. `communicators`: for each, among how many GPUs it is. A
// communicator takes its memory at its first use. The least: one of them is used; the most: all.
inline Nccl nccl_of(const std::vector<std::uint64_t>& communicators, const Gpu& gpu) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  // 16 GPUs 3090, each rank: https://github.com/vllm-project/vllm/pull/14447
  constexpr std::uint64_t kLeast = 205 * kMiB;
  // A100, two GPUs, and three or four: https://github.com/NVIDIA/nccl/issues/964
  constexpr std::uint64_t kTwoGpus = 544 * kMiB;
  constexpr std::uint64_t kMoreGpus = 688 * kMiB;
  // NVLS (sums in NVLink's switches), among more than two GPUs, on H100 and later:
  // https://github.com/vllm-project/vllm/issues/9699
  constexpr std::uint64_t kSums = 288 * kMiB;
  Nccl nccl;
  for (const std::uint64_t gpus : communicators) {
    if (gpus > 1) {
      nccl.least = kLeast;
      nccl.most += gpus == 2 ? kTwoGpus : kMoreGpus + (gpu.capability >= 90 ? kSums : 0);
    }
  }
  return nccl;
}

}  // namespace cubfc::cli::fit
