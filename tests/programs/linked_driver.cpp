// A program that is linked to libcuda.so.1 and calls its functions by name, as older tools and many
// samples do. Allocates blocks of many sizes, writes, verifies, frees.
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

int failures = 0;

bool ok(const char* what, CUresult result) {
  if (result != CUDA_SUCCESS) {
    const char* name = "?";
    cuGetErrorName(result, &name);
    std::printf("%s: %s\n", what, name);
    ++failures;
  }
  return result == CUDA_SUCCESS;
}

void round_trip(std::size_t bytes) {
  CUdeviceptr block = 0;
  if (!ok("cuMemAlloc", cuMemAlloc(&block, bytes))) {
    return;
  }
  std::vector<unsigned char> written(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    written[i] = static_cast<unsigned char>((i * 131 + bytes) >> 3U);
  }
  std::vector<unsigned char> read(bytes);
  ok("cuMemcpyHtoD", cuMemcpyHtoD(block, written.data(), bytes));
  ok("cuMemcpyDtoH", cuMemcpyDtoH(read.data(), block, bytes));
  std::printf("%zu bytes: address mod 512 is %llu, %s\n", bytes,
              static_cast<unsigned long long>(block % 512),
              written == read ? "read back" : "NOT read back");
  failures += written == read ? 0 : 1;
  ok("cuMemFree", cuMemFree(block));
}

}  // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  if (!ok("cuInit", cuInit(0)) || !ok("cuDeviceGet", cuDeviceGet(&device, 0)) ||
      !ok("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device)) ||
      !ok("cuCtxSetCurrent", cuCtxSetCurrent(context))) {
    return 1;
  }
  for (const std::size_t bytes : {1UL, 3UL, 512UL, 513UL, 4096UL, 65536UL, 1UL << 20U, 5000000UL}) {
    round_trip(bytes);
  }
  ok("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease(device));
  std::printf("failures: %d\n", failures);
  return failures == 0 ? 0 : 1;
}
