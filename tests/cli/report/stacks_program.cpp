// Allocates device memory in functions whose names and lines a report is to tell: one that was
// inlined into another, one of a namespace with a template. Prints nothing. With an argument: loads
// this library before, which may say that it is a Python, and is
// called by it. With a second one: loads it again and again while a thread allocates.
#include <cuda.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <thread>

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

namespace {

int allocate_at(void* address) {
  return layers::forward(static_cast<CUdeviceptr*>(address));
}

}  // namespace

// Allocates in one thread while another loads and unloads the library.
[[gnu::noinline]] static int allocate_while_loading(const char* library,
                                                    decltype(&cuMemFree) free_memory,
                                                    decltype(&cuCtxSetCurrent) set_current,
                                                    CUcontext context) {
  std::atomic<bool> is_over{false};
  std::thread allocates([&] {
    set_current(context);
    while (!is_over) {
      CUdeviceptr address = 0;
      if (layers::forward(&address) == 0) {
        free_memory(address);
      }
    }
  });
  int loaded = 0;
  for (int n = 0; n < 20; ++n) {
    if (void* const handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL); handle != nullptr) {
      ++loaded;
      dlclose(handle);
    }
  }
  is_over = true;
  allocates.join();
  return loaded == 20 ? 0 : 1;
}

int main(int count, char** arguments) {
  const bool loads = count > 2;
  void* const python = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) : nullptr;
  if (count == 2 && python == nullptr) {
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
  if (loads) {
    return allocate_while_loading(
        arguments[1], look_up<decltype(cuMemFree)>(driver, "cuMemFree_v2"),
        look_up<decltype(cuCtxSetCurrent)>(driver, "cuCtxSetCurrent"), context);
  }
  CUdeviceptr address = 0;
  if (python != nullptr) {
    using Call = int(int (*)(void*), void*);
    return look_up<Call>(python, "call_from_python")(&allocate_at, &address);
  }
  const int result = layers::forward(&address);  // LINE of main
  asm volatile("" ::: "memory");
  return result;
}
