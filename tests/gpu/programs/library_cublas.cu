// cuBLAS: products of matrices of changing sizes, with the workspace that it allocates by itself.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <string>

#include "device_array.h"

int main() {
  need_device();
  cublasHandle_t handle{};
  must(cublasCreate(&handle));
  for (const int size : {64, 300, 1024, 2048, 128}) {
    const std::size_t count = static_cast<std::size_t>(size) * size;
    const DeviceArray<float> a(pseudo_random<float>(count, 1));
    const DeviceArray<float> b(pseudo_random<float>(count, 2));
    DeviceArray<float> c(count);
    const float one = 1;
    const float zero = 0;
    must(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, size, size, size, &one, a.data(), size,
                     b.data(), size, &zero, c.data(), size));
    print("product " + std::to_string(size), c.read());
  }
  must(cublasDestroy(handle));
  return 0;
}
