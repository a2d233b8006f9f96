// A program with a CUDA runtime, and a plugin with another one. What fails in one of them is that
// one's error. Prints what it sees, and, if a preloaded library overrides cudaMalloc, how many
// calls that has seen.
#include <dlfcn.h>

#include <cstdio>

extern "C" int cudaMalloc(void** address, unsigned long bytes);
extern "C" int cudaFree(void* address);
extern "C" int cudaGetLastError();

int main() {
  constexpr unsigned long kTooMuch = 1UL << 50;
  void* const plugin = dlopen(CUBFC_TEST_RUNTIME_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const auto plugin_allocate =
      reinterpret_cast<int (*)(void**, unsigned long)>(dlsym(plugin, "plugin_allocate"));
  const auto plugin_last_error = reinterpret_cast<int (*)()>(dlsym(plugin, "plugin_last_error"));
  const auto show = [&](const char* what, int result) {
    const int ours = cudaGetLastError();
    std::printf("%s: %d, our last error: %d, the plugin's: %d\n", what, result, ours,
                plugin_last_error());
  };

  void* address = nullptr;
  show("we allocate", cudaMalloc(&address, 1000));
  show("we free", cudaFree(address));
  show("the plugin allocates", plugin_allocate(&address, 1000));
  show("we free", cudaFree(address));
  show("we allocate too much", cudaMalloc(&address, kTooMuch));
  show("the plugin allocates too much", plugin_allocate(&address, kTooMuch));
  show("we free nonsense", cudaFree(&address));
  using Count = int (*)();
  if (const auto count = reinterpret_cast<Count>(dlsym(RTLD_DEFAULT, "overridden_calls"))) {
    std::printf("overridden: %d calls\n", count());
  }
  return 0;
}
