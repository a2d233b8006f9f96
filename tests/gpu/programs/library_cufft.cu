// cuFFT: spectra of changing lengths; each plan allocates its work area.
#include <cuda_runtime.h>
#include <cufft.h>

#include <string>

#include "device_array.h"

int main() {
  need_device();
  for (const int size : {256, 1000, 4093, 1 << 16}) {
    constexpr int kBatch = 16;
    const std::size_t count = static_cast<std::size_t>(size) * kBatch;
    const DeviceArray<float> input(pseudo_random<float>(2 * count, 3));
    DeviceArray<float> output(2 * count);
    cufftHandle plan{};
    must(cufftPlan1d(&plan, size, CUFFT_C2C, kBatch));
    must(cufftExecC2C(plan, reinterpret_cast<cufftComplex*>(input.data()),
                      reinterpret_cast<cufftComplex*>(output.data()), CUFFT_FORWARD));
    must(cufftDestroy(plan));
    print("spectrum " + std::to_string(size), output.read());
  }
  return 0;
}
