// An ordinary CUDA program, compiled by nvcc with the shared runtime: allocates, launches two
// kernels, verifies, frees, and makes mistakes on purpose. The kernels' names are part of its
// interface.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

extern "C" __global__ void fill(unsigned* data, unsigned value, size_t count) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) {
    data[i] = value;
  }
}

extern "C" __global__ void add(float* out, const float* x, const float* y, size_t count) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) {
    out[i] = x[i] + y[i];
  }
}

namespace {

int failures = 0;

void must(const char* what, cudaError_t result) {
  if (result != cudaSuccess) {
    std::printf("%s: %s\n", what, cudaGetErrorName(result));
    ++failures;
  }
}

void print(const char* what, cudaError_t result) {
  std::printf("%s: %s\n", what, cudaGetErrorName(result));
}

void check(const char* what, bool truth) {
  std::printf("%s: %s\n", what, truth ? "yes" : "no");
  failures += truth ? 0 : 1;
}

constexpr unsigned kThreads = 256;

unsigned blocks_for(size_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

void add_vectors() {
  constexpr size_t kCount = 1000003;
  std::vector<float> x(kCount);
  std::vector<float> y(kCount);
  std::vector<float> sum(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    x[i] = static_cast<float>(i % 1000);
    y[i] = static_cast<float>(i % 77) * 0.5F;
  }
  float* device_x = nullptr;
  float* device_y = nullptr;
  float* device_sum = nullptr;
  const size_t bytes = kCount * sizeof(float);
  must("cudaMalloc", cudaMalloc(&device_x, bytes));
  must("cudaMalloc", cudaMalloc(&device_y, bytes));
  must("cudaMalloc", cudaMalloc(&device_sum, bytes));
  must("cudaMemcpy", cudaMemcpy(device_x, x.data(), bytes, cudaMemcpyHostToDevice));
  must("cudaMemcpy", cudaMemcpy(device_y, y.data(), bytes, cudaMemcpyHostToDevice));
  add<<<blocks_for(kCount), kThreads>>>(device_sum, device_x, device_y, kCount);
  must("launch of add", cudaGetLastError());
  must("cudaMemcpy", cudaMemcpy(sum.data(), device_sum, bytes, cudaMemcpyDeviceToHost));
  size_t wrong = 0;
  for (size_t i = 0; i < kCount; ++i) {
    wrong += sum[i] == x[i] + y[i] ? 0 : 1;
  }
  std::printf("add: %zu of %zu are wrong\n", wrong, kCount);
  failures += wrong == 0 ? 0 : 1;
  must("cudaFree", cudaFree(device_x));
  must("cudaFree", cudaFree(device_y));
  must("cudaFree", cudaFree(device_sum));
}

void fill_many() {
  for (unsigned value = 1; value <= 50; ++value) {
    const size_t count = value * 997;
    unsigned* data = nullptr;
    must("cudaMalloc", cudaMalloc(&data, count * sizeof(unsigned)));
    fill<<<blocks_for(count), kThreads>>>(data, value * 0x01010101U, count);
    must("launch of fill", cudaGetLastError());
    std::vector<unsigned> read(count);
    must("cudaMemcpy",
         cudaMemcpy(read.data(), data, count * sizeof(unsigned), cudaMemcpyDeviceToHost));
    for (const unsigned number : read) {
      failures += number == value * 0x01010101U ? 0 : 1;
    }
    must("cudaFree", cudaFree(data));
  }
  std::printf("fill: done\n");
}

void free_while_a_kernel_is_queued() {
  constexpr size_t kCount = 1U << 20U;
  unsigned* first = nullptr;
  must("cudaMalloc", cudaMalloc(&first, kCount * sizeof(unsigned)));
  fill<<<blocks_for(kCount), kThreads>>>(first, 1, kCount);
  must("cudaFree", cudaFree(first));
  unsigned* second = nullptr;
  must("cudaMalloc", cudaMalloc(&second, kCount * sizeof(unsigned)));
  must("cudaMemset", cudaMemset(second, 0x22, kCount * sizeof(unsigned)));
  must("cudaDeviceSynchronize", cudaDeviceSynchronize());
  std::vector<unsigned> read(kCount);
  must("cudaMemcpy",
       cudaMemcpy(read.data(), second, kCount * sizeof(unsigned), cudaMemcpyDeviceToHost));
  size_t wrong = 0;
  for (const unsigned number : read) {
    wrong += number == 0x22222222U ? 0 : 1;
  }
  std::printf("memory used again while a kernel was queued: %zu are wrong\n", wrong);
  failures += wrong == 0 ? 0 : 1;
  must("cudaFree", cudaFree(second));
}

void mistakes() {
  void* block = nullptr;
  print("cudaMalloc of too much", cudaMalloc(&block, static_cast<size_t>(1) << 50U));
  print("  the last error", cudaPeekAtLastError());
  print("  the last error, taken", cudaGetLastError());
  print("  and then", cudaGetLastError());
  print("cudaMalloc of 0 bytes", cudaMalloc(&block, 0));
  print("cudaFree of NULL", cudaFree(nullptr));
  print("cudaFree of garbage", cudaFree(reinterpret_cast<void*>(0xdeadbeef000)));
  print("  the last error", cudaGetLastError());
  must("cudaMalloc", cudaMalloc(&block, 4096));
  print("cudaFree one byte in", cudaFree(static_cast<char*>(block) + 1));
  print("  the last error", cudaGetLastError());
  must("cudaFree", cudaFree(block));
  print("cudaFree once more", cudaFree(block));
  print("  the last error", cudaGetLastError());
  print("  and then", cudaGetLastError());
}

void memory_info() {
  size_t free_before = 0;
  size_t free_with = 0;
  size_t free_after = 0;
  size_t total = 0;
  constexpr size_t kBytes = static_cast<size_t>(64) << 20U;
  must("cudaMemGetInfo", cudaMemGetInfo(&free_before, &total));
  void* block = nullptr;
  must("cudaMalloc", cudaMalloc(&block, kBytes));
  must("cudaMemGetInfo", cudaMemGetInfo(&free_with, &total));
  must("cudaFree", cudaFree(block));
  must("cudaMemGetInfo", cudaMemGetInfo(&free_after, &total));
  check("free is within the total", free_before <= total);
  check("free goes down by what is allocated", free_with + kBytes <= free_before);
  check("and up when it is freed", free_after >= free_with + kBytes);
}

}  // namespace

int main() {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "no CUDA device: %s\n", cudaGetErrorName(result));
    return 77;
  }
  add_vectors();
  fill_many();
  free_while_a_kernel_is_queued();
  mistakes();
  memory_info();
  std::printf("failures: %d\n", failures);
  return failures == 0 ? 0 : 1;
}
