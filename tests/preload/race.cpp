// Look-ups from many threads while libraries are loaded and unloaded, one of which looks up driver
// names in its constructor, with the loader's lock held.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

int main() {
  std::atomic<bool> done{false};
  std::atomic<long> found{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      while (!done) {
        void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
        found += dlsym(driver, i % 2 == 0 ? "cuMemAlloc_v2" : "cuGetProcAddress_v2") != nullptr;
        found += dlsym(RTLD_DEFAULT, "cudaMalloc") != nullptr;
        found += dlsym(RTLD_NEXT, "malloc") != nullptr;
        dlclose(driver);
      }
    });
  }
  int failed = 0;
  for (int i = 0; i < 200; ++i) {
    void* library = dlopen(CUBFC_TEST_CONSTRUCTOR_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    failed += library == nullptr;
    if (library != nullptr) {
      dlclose(library);
    }
  }
  done = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (failed != 0 || found == 0) {
    std::fprintf(stderr, "%d loads failed, %ld look-ups succeeded: %s\n", failed, found.load(),
                 dlerror());
    return 1;
  }
  return 0;
}
