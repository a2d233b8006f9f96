// A runtime API program such as nvcc makes them, its kernel registered by hand: what it prints and
// returns is checked by ctest. Needs no nvcc.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <vector>

extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* host_function, char* device_function,
                            const char* name, int thread_limit, uint3* tid, uint3* bid, dim3* block,
                            dim3* grid, int* warp_size);
}

namespace {

void FillOnHost() {}  // only its address is used

void Register() {
  static char image[] = "image";
  static char name[] = "fill";
  void** const handle = __cudaRegisterFatBinary(image);
  __cudaRegisterFunction(handle, reinterpret_cast<const char*>(&FillOnHost), name, name, -1,
                         nullptr, nullptr, nullptr, nullptr, nullptr);
  __cudaRegisterFatBinaryEnd(handle);
}

#define EXPECT(condition)                                       \
  if (!(condition)) {                                           \
    std::printf("line %d: not so: %s\n", __LINE__, #condition); \
    return 1;                                                   \
  }

int Memory() {
  void* nothing = &nothing;
  EXPECT(cudaMalloc(&nothing, 0) == cudaSuccess);
  EXPECT(nothing == nullptr);
  EXPECT(cudaFree(nullptr) == cudaSuccess);
  EXPECT(cudaMalloc(&nothing, std::size_t{1} << 50) == cudaErrorMemoryAllocation);
  EXPECT(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
  EXPECT(cudaGetLastError() == cudaSuccess);
  void* memory = nullptr;
  EXPECT(cudaMalloc(&memory, 4096) == cudaSuccess);
  cudaPointerAttributes attributes{};
  EXPECT(cudaPointerGetAttributes(&attributes, memory) == cudaSuccess);
  EXPECT(attributes.type == cudaMemoryTypeDevice);
  EXPECT(cudaFree(memory) == cudaSuccess);
  EXPECT(cudaFree(memory) == cudaErrorInvalidValue);
  return 0;
}

int Kernel() {
  constexpr std::size_t kCount = 1000;
  cudaStream_t stream = nullptr;
  void* memory = nullptr;
  EXPECT(cudaStreamCreate(&stream) == cudaSuccess);
  EXPECT(cudaMalloc(&memory, kCount * sizeof(unsigned)) == cudaSuccess);
  unsigned value = 42;
  std::size_t count = kCount;
  void* arguments[] = {&memory, &value, &count};
  const void* const function = reinterpret_cast<const void*>(&FillOnHost);
  EXPECT(cudaLaunchKernel(function, dim3{4, 1, 1}, dim3{256, 1, 1}, arguments, 0, stream) ==
         cudaSuccess);
  std::vector<unsigned> read(kCount);
  EXPECT(cudaMemcpyAsync(read.data(), memory, kCount * sizeof(unsigned), cudaMemcpyDeviceToHost,
                         stream) == cudaSuccess);
  EXPECT(cudaStreamSynchronize(stream) == cudaSuccess);
  for (const unsigned found : read) {
    EXPECT(found == 42);
  }
  EXPECT(cudaLaunchKernel(&value, dim3{1, 1, 1}, dim3{1, 1, 1}, nullptr, 0, stream) ==
         cudaErrorInvalidDeviceFunction);
  return 0;
}

int Reset() {
  void* memory = nullptr;
  std::size_t before = 0;
  std::size_t after = 0;
  EXPECT(cudaMemGetInfo(&before, nullptr) == cudaSuccess);
  EXPECT(cudaMalloc(&memory, 4096) == cudaSuccess);
  EXPECT(cudaDeviceReset() == cudaSuccess);
  EXPECT(cudaMemGetInfo(&after, nullptr) == cudaSuccess);
  EXPECT(after >= before);
  EXPECT(cudaFree(memory) == cudaErrorInvalidValue);
  EXPECT(cudaMalloc(&memory, 4096) == cudaSuccess);
  return 0;
}

}  // namespace

int main() {
  Register();
  if (Memory() || Kernel() || Reset()) return 1;
  std::puts("all as expected");
  return 0;
}
