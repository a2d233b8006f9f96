// NCCL on one device: its communicator has one rank, and still allocates and registers buffers.
#include <cuda_runtime.h>
#include <nccl.h>

#include <string>

#include "device_array.h"

int main() {
  need_device();
  const int device = 0;
  ncclComm_t communicator{};
  must(ncclCommInitAll(&communicator, 1, &device));
  cudaStream_t stream{};
  must(cudaStreamCreate(&stream));
  for (const std::size_t count : {1000ul, 1'000'000ul}) {
    const DeviceArray<float> input(pseudo_random<float>(count, 8));
    DeviceArray<float> output(count);
    must(ncclAllReduce(input.data(), output.data(), count, ncclFloat, ncclSum, communicator,
                       stream));
    must(cudaStreamSynchronize(stream));
    print("sum of " + std::to_string(count), output.read());
  }
  must(cudaStreamDestroy(stream));
  must(ncclCommDestroy(communicator));
  return 0;
}
