// Prints what look-ups of driver and runtime names find, as a program and its libraries would make
// them.
#include <dlfcn.h>

#include <cstdio>

namespace {

const char* const kNames[] = {"cuMemAlloc_v2",  "cuMemFree_v2", "cuGetProcAddress",
                              "cudaMalloc",     "cudaFree",     "cudaMallocAsync",
                              "cuLaunchKernel", "malloc",       "no_such_symbol"};

const char* object_of(void* address) {
  Dl_info info;
  if (address == nullptr) {
    return "nothing";
  }
  return dladdr(address, &info) != 0 ? "something" : "somewhere";
}

void look(const char* how, void* handle) {
  for (const char* name : kNames) {
    dlerror();
    void* found = dlsym(handle, name);
    std::printf("%s %s: %s%s\n", how, name, object_of(found),
                dlerror() != nullptr ? ", error" : "");
  }
}

}  // namespace

int main() {
  look("default, no driver", RTLD_DEFAULT);
  look("next, no driver", RTLD_NEXT);
  look("main, no driver", dlopen(nullptr, RTLD_LAZY));
  // Loaded for this program alone: the names do not appear to anybody who does not ask the handle.
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  look("driver", driver);
  look("default, driver local", RTLD_DEFAULT);
  look("main, driver local", dlopen(nullptr, RTLD_LAZY));
  dlopen("libcuda.so.1", RTLD_LAZY | RTLD_GLOBAL);
  look("default, driver global", RTLD_DEFAULT);
  // RTLD_NEXT relative to a library: what it overrides is found behind it, never itself.
  using Count = int (*)();
  if (auto calls = reinterpret_cast<Count>(dlsym(RTLD_DEFAULT, "next_library_calls"))) {
    std::puts("a line through the library that overrides puts");
    std::printf("calls of its puts: %d\n", calls());
  }
  return 0;
}
