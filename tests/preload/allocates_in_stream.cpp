// A program that allocates in a stream through its runtime, and then asks for more than there is.
#include <cuda_runtime_api.h>

#include <cstdio>

int main() {
  void* blocks[2] = {};
  void* too_much = nullptr;
  cudaMemPool_t pool = nullptr;
  if (cudaMallocAsync(&blocks[0], 20 << 20, nullptr) != cudaSuccess ||
      cudaDeviceGetDefaultMemPool(&pool, 0) != cudaSuccess ||
      cudaMallocFromPoolAsync(&blocks[1], 10 << 20, pool, nullptr) != cudaSuccess ||
      cudaMalloc(&too_much, std::size_t{1000} << 20) != cudaErrorMemoryAllocation ||
      cudaFreeAsync(blocks[0], nullptr) != cudaSuccess ||
      cudaFreeAsync(blocks[1], nullptr) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) {
    std::puts("not as expected");
    return 1;
  }
  return 0;
}
