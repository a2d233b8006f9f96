// A library with the shared runtime that nobody else sees, as a Python extension has it. Its calls
// are tail jumps, so the return address is its caller's.
#include <cuda_runtime_api.h>

extern "C" __attribute__((visibility("default"))) int user_init() {
  return cudaFree(nullptr);
}
extern "C" __attribute__((visibility("default"))) int user_allocate(void** address) {
  return cudaMalloc(address, 1000);
}
extern "C" __attribute__((visibility("default"))) int user_free(void* address) {
  return cudaFree(address);
}
