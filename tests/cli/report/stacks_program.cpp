// Allocates device memory in functions whose names and lines a report is to tell: one that was
// inlined into another, one of a namespace with a template. Prints nothing. With an argument: loads
// this library before, which may say that it is a Python.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>

namespace {

decltype(&cuMemAlloc) allocate_memory;

template <class Function>
Function* look_up(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

namespace layers {

[[gnu::always_inline]] inline int grow(CUdeviceptr* address) {
  return static_cast<int>(allocate_memory(address, 4096));  // LINE of grow
}

template <typename Number>
[[gnu::noinline]] int forward(Number* address) {
  const int result = grow(address);  // LINE of forward
  asm volatile("" ::: "memory");
  return result;
}

}  // namespace layers

int main(int count, char** arguments) {
  if (count > 1 && dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  CUcontext context = nullptr;
  look_up<decltype(cuInit)>(driver, "cuInit")(0);
  look_up<decltype(cuDevicePrimaryCtxRetain)>(driver, "cuDevicePrimaryCtxRetain")(&context, 0);
  look_up<decltype(cuCtxSetCurrent)>(driver, "cuCtxSetCurrent")(context);
  allocate_memory = look_up<decltype(cuMemAlloc)>(driver, "cuMemAlloc_v2");
  CUdeviceptr address = 0;
  const int result = layers::forward(&address);  // LINE of main
  asm volatile("" ::: "memory");
  return result;
}
