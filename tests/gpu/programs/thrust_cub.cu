// Thrust and CUB: algorithms that allocate and free their own temporary memory with every call.
#include <cuda_runtime.h>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

#include <cub/cub.cuh>

#include "device_array.h"

namespace {

void sort_scan_reduce(std::size_t count) {
  const std::vector<std::uint32_t> values =
      pseudo_random<std::uint32_t>(count, static_cast<std::uint32_t>(count));
  thrust::device_vector<std::uint32_t> vector(values.begin(), values.end());
  thrust::sort(vector.begin(), vector.end());
  const std::uint64_t sum = thrust::reduce(vector.begin(), vector.end(), std::uint64_t{0});
  thrust::device_vector<std::uint32_t> sums(count);
  thrust::inclusive_scan(vector.begin(), vector.end(), sums.begin());
  vector.erase(thrust::unique(vector.begin(), vector.end()), vector.end());
  std::vector<std::uint32_t> host(count);
  thrust::copy(sums.begin(), sums.end(), host.begin());
  print("scan of " + std::to_string(count), host);
  std::printf("sum %llu, %zu distinct\n", static_cast<unsigned long long>(sum), vector.size());
}

// Radix sort in a stream, with temporary memory that is freed while the sort runs.
void cub_in_streams() {
  constexpr int kStreams = 4;
  constexpr std::size_t kCount = 1 << 18;
  std::vector<cudaStream_t> streams(kStreams);
  for (cudaStream_t& stream : streams) {
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  const DeviceArray<std::uint32_t> keys(pseudo_random<std::uint32_t>(kCount, 9));
  must(cudaDeviceSynchronize());  // the keys are there; these streams wait for no other
  std::vector<std::uint64_t> checks;
  for (int round = 0; round < 40; ++round) {
    cudaStream_t stream = streams[round % kStreams];
    std::size_t bytes = 0;
    std::uint32_t* sorted = nullptr;
    void* temporary = nullptr;
    must(cudaMalloc(&sorted, kCount * sizeof(std::uint32_t)));
    must(
        cub::DeviceRadixSort::SortKeys(nullptr, bytes, keys.data(), sorted, kCount, 0, 32, stream));
    must(cudaMalloc(&temporary, bytes));
    must(cub::DeviceRadixSort::SortKeys(temporary, bytes, keys.data(), sorted, kCount, 0, 32,
                                        stream));
    must(cudaFree(temporary));
    std::vector<std::uint32_t> host(kCount);
    must(cudaMemcpyAsync(host.data(), sorted, kCount * sizeof(std::uint32_t),
                         cudaMemcpyDeviceToHost, stream));
    must(cudaStreamSynchronize(stream));
    must(cudaFree(sorted));
    checks.push_back(host[round] ^ host[kCount - 1 - round]);
  }
  print("sorted in streams", checks);
  for (cudaStream_t stream : streams) {
    must(cudaStreamDestroy(stream));
  }
}

}  // namespace

int main() {
  need_device();
  for (const std::size_t count : {1000ul, 100'000ul, 5'000'000ul, 3ul}) {
    sort_scan_reduce(count);
  }
  cub_in_streams();
  return 0;
}
