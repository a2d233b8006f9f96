// The GPUs that `cubfc fit` knows: what decides how much memory a program takes there, and how much
// there is. From public sources (gpus.inc).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cubfc::cli::fit {

struct Gpu {
  std::string name;         // "A100-80GB", "A100-80GB:1g.10gb", "24GiB"
  std::string device_name;  // as CUDA calls it
  int capability = 0;       // ten times the major number, and the minor one
  int multiprocessors = 0;
  int threads = 0;                  // that a multiprocessor has at once
  std::uint64_t total_bytes = 0;    // as cuMemGetInfo tells it
  std::uint64_t context_bytes = 0;  // of a process, beside what its allocator takes
  bool context_was_seen = false;    // on this GPU; else on one like it
  std::string source;               // an address; empty: several programs' output

  bool is_one_like(const Gpu& other) const {
    return capability == other.capability && multiprocessors == other.multiprocessors &&
           threads == other.threads;
  }
};

// Those that are shown unasked, the smallest first.
std::vector<Gpu> usual_gpus();
// All, in the order of their memory, for --list-gpus.
std::vector<Gpu> all_gpus();

// By its name, with or without "NVIDIA", "RTX" and the like, in capitals or not; a slice behind a
// colon; or a size, which is an A100 of that size. Throws Failure that names those that there are.
Gpu find_gpu(std::string_view text);

}  // namespace cubfc::cli::fit
