// A program whose allocations watching_library watches; "behind" looks up the driver's functions
// behind other definitions of them.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

extern "C" bool watch_driver(bool behind_others);
extern "C" void print_watched();

int main(int argc, char** argv) {
  void* address = nullptr;
  CUdeviceptr block = 0;
  if (cudaMalloc(&address, 1000) != cudaSuccess || cudaFree(address) != cudaSuccess) {
    return 1;
  }
  if (!watch_driver(argc > 1 && std::strcmp(argv[1], "behind") == 0)) {
    std::puts("the driver's functions cannot be watched");
    return 1;
  }
  for (int i = 0; i < 10; ++i) {
    if (cudaMalloc(&address, 1000) != cudaSuccess || cuMemAlloc(&block, 1000) != CUDA_SUCCESS ||
        cudaFree(address) != cudaSuccess || cuMemFree(block) != CUDA_SUCCESS) {
      return 1;
    }
  }
  print_watched();
  return 0;
}
