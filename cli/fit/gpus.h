// The GPUs that `cubfc fit` knows: their memory, and what decides how much memory a program takes
// on them. From public sources (gpus.inc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cubfc::cli::fit {

struct Gpu {
  std::string name;         // "A100-80GB", "A100-80GB:1g.10gb", "24GiB"
  std::string device_name;  // as CUDA calls it
  int capability = 0;       // compute capability: ten times the major number plus the minor one
  int multiprocessors = 0;
  int threads = 0;                  // the most that a multiprocessor has at once
  std::uint64_t total_bytes = 0;    // as cuMemGetInfo tells it
  std::uint64_t context_bytes = 0;  // what a process takes for context, kernels and libraries
  bool context_was_seen = false;    // context_bytes was seen on this GPU; else on one like it
  std::string source;               // of the figures: a URL; empty: several programs' output

  bool is_one_like(const Gpu& other) const {
    return capability == other.capability && multiprocessors == other.multiprocessors &&
           threads == other.threads;
  }
};

// The GPUs that are shown without --gpu, the smallest first.
std::vector<Gpu> usual_gpus();
// All GPUs in the order of their memory, for --list-gpus.
std::vector<Gpu> all_gpus();

// Finds a GPU by its name or the beginning of it, with or without "NVIDIA", "RTX" and the like, in
// capitals or not. A colon and a slice may follow. A size, such as 24GiB, is an A100 with so much
// memory. Throws Failure, which names the GPUs that there are.
Gpu find_gpu(std::string_view text);

}  // namespace cubfc::cli::fit
