// cuSOLVER: systems of linear equations of changing sizes.
#include <cuda_runtime.h>
#include <cusolverDn.h>

#include <string>
#include <vector>

#include "device_array.h"

int main() {
  need_device();
  cusolverDnHandle_t handle{};
  must(cusolverDnCreate(&handle));
  for (const int size : {50, 500, 1200}) {
    std::vector<double> matrix = pseudo_random<double>(static_cast<std::size_t>(size) * size, 4);
    for (int i = 0; i < size; ++i) {
      matrix[static_cast<std::size_t>(i) * size + i] += size;
    }
    DeviceArray<double> a(matrix);
    DeviceArray<double> b(pseudo_random<double>(size, 5));
    DeviceArray<int> pivots(size);
    DeviceArray<int> info(1);
    int workspace = 0;
    must(cusolverDnDgetrf_bufferSize(handle, size, size, a.data(), size, &workspace));
    DeviceArray<double> scratch(workspace);
    must(cusolverDnDgetrf(handle, size, size, a.data(), size, scratch.data(), pivots.data(),
                          info.data()));
    must(cusolverDnDgetrs(handle, CUBLAS_OP_N, size, 1, a.data(), size, pivots.data(), b.data(),
                          size, info.data()));
    print("solution " + std::to_string(size), b.read());
  }
  must(cusolverDnDestroy(handle));
  return 0;
}
