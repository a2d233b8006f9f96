// A CUDA runtime library as small as can be. Several are made of it, with symbol versions of their
// own as NVIDIA's have, and each has an error of its own.
#include <cuda.h>

#define RUNTIME_API extern "C" __attribute__((visibility("default"))) int

namespace {

thread_local int last_error = 0;

int remember(CUresult result) {
  last_error = result == CUDA_SUCCESS ? last_error : static_cast<int>(result);
  return static_cast<int>(result);
}

void make_context() {
  CUcontext context = nullptr;
  if (cuInit(0) == CUDA_SUCCESS && cuCtxGetCurrent(&context) == CUDA_SUCCESS &&
      context == nullptr && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS) {
    cuCtxSetCurrent(context);
  }
}

}  // namespace

RUNTIME_API cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return 0;
}
RUNTIME_API cudaMalloc(void** address, size_t bytes) {
  make_context();
  return remember(cuMemAlloc(reinterpret_cast<CUdeviceptr*>(address), bytes));
}
RUNTIME_API cudaFree(void* address) {
  make_context();
  return remember(cuMemFree(reinterpret_cast<CUdeviceptr>(address)));
}
RUNTIME_API cudaGetLastError() {
  const int result = last_error;
  last_error = 0;
  return result;
}
