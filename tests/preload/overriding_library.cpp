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
  return reinterpret_cast<int (*)(void**, unsigned long)>(dlsym(RTLD_NEXT, "cudaMalloc"))(address,
                                                                                          bytes);
}
extern "C" __attribute__((visibility("default"))) int cudaFree(void* address) {
  ++calls;
  return reinterpret_cast<int (*)(void*)>(dlsym(RTLD_NEXT, "cudaFree"))(address);
}
