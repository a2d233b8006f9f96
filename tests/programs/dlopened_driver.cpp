// A program that is linked to no CUDA library: dlopen, then dlsym of the _v2 names, as cuFFT,
// cuBLASLt and many language bindings do. Allocates, copies on the device, verifies, frees.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <vector>

namespace {

template <class Function>
Function* look_up(void* library, const char* name) {
  void* const address = dlsym(library, name);
  if (address == nullptr) {
    std::printf("%s: not found\n", name);
  }
  return reinterpret_cast<Function*>(address);
}

int print(const char* what, CUresult result) {
  std::printf("%s: %d\n", what, static_cast<int>(result));
  return result == CUDA_SUCCESS ? 0 : 1;
}

}  // namespace

int main() {
  void* const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "no CUDA driver: %s\n", dlerror());
    return 77;
  }
  auto* const init = look_up<decltype(cuInit)>(library, "cuInit");
  auto* const get = look_up<decltype(cuDeviceGet)>(library, "cuDeviceGet");
  auto* const retain =
      look_up<decltype(cuDevicePrimaryCtxRetain)>(library, "cuDevicePrimaryCtxRetain");
  auto* const set_current = look_up<decltype(cuCtxSetCurrent)>(library, "cuCtxSetCurrent");
  auto* const alloc = look_up<decltype(cuMemAlloc)>(library, "cuMemAlloc_v2");
  auto* const release = look_up<decltype(cuMemFree)>(library, "cuMemFree_v2");
  auto* const to_device = look_up<decltype(cuMemcpyHtoD)>(library, "cuMemcpyHtoD_v2");
  auto* const to_host = look_up<decltype(cuMemcpyDtoH)>(library, "cuMemcpyDtoH_v2");
  auto* const on_device = look_up<decltype(cuMemcpyDtoD)>(library, "cuMemcpyDtoD_v2");
  auto* const info = look_up<decltype(cuMemGetInfo)>(library, "cuMemGetInfo_v2");

  CUdevice device = 0;
  CUcontext context = nullptr;
  int failures = print("cuInit", init(0));
  failures += print("cuDeviceGet", get(&device, 0));
  failures += print("cuDevicePrimaryCtxRetain", retain(&context, device));
  failures += print("cuCtxSetCurrent", set_current(context));

  constexpr std::size_t kCount = 300000;
  constexpr std::size_t kBytes = kCount * sizeof(unsigned);
  std::vector<unsigned> numbers(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    numbers[i] = static_cast<unsigned>(i * 2654435761U);
  }
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  failures += print("cuMemAlloc_v2", alloc(&first, kBytes));
  failures += print("cuMemAlloc_v2", alloc(&second, kBytes));
  const bool apart = first + kBytes <= second || second + kBytes <= first;
  std::printf("blocks apart: %s\n", apart ? "yes" : "no");
  failures += print("cuMemcpyHtoD_v2", to_device(first, numbers.data(), kBytes));
  failures += print("cuMemcpyDtoD_v2", on_device(second, first, kBytes));
  std::vector<unsigned> read(kCount);
  failures += print("cuMemcpyDtoH_v2", to_host(read.data(), second, kBytes));
  std::printf("read back: %s\n", read == numbers ? "yes" : "no");

  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  failures += print("cuMemGetInfo_v2", info(&free_bytes, &total_bytes));
  std::printf("free below total: %s\n", free_bytes < total_bytes ? "yes" : "no");
  failures += print("cuMemFree_v2", release(first));
  failures += print("cuMemFree_v2", release(second));
  std::printf("double free refused: %s\n", release(second) != CUDA_SUCCESS ? "yes" : "no");
  return failures == 0 && apart && read == numbers ? 0 : 1;
}
