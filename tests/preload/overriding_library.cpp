// A preloaded library that overrides cudaMalloc and cudaFree.
#include <dlfcn.h>

namespace {
int calls = 0;
}

extern "C" __attribute__((visibility("default"))) int overridden_calls() {
  return calls;
}
extern "C" __attribute__((visibility("default"))) int cudaMalloc(void** address,
                                                                 unsigned long bytes) {
  ++calls;
  const auto next =
      reinterpret_cast<int (*)(void**, unsigned long)>(dlsym(RTLD_NEXT, "cudaMalloc"));
  volatile int result = next(address, bytes);  // no tail call: the caller is this library
  return result;
}
extern "C" __attribute__((visibility("default"))) int cudaFree(void* address) {
  ++calls;
  const auto next = reinterpret_cast<int (*)(void*)>(dlsym(RTLD_NEXT, "cudaFree"));
  volatile int result = next(address);
  return result;
}
