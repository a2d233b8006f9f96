#include "injection.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>

namespace standin {
namespace {

// CUPTI's samples return 1 for success. What the driver does with a library that is not found, has
// no such function or returns 0 is not documented; assumed: it goes on without it, and cuInit
// succeeds.
void Load() {
  const char* const path = std::getenv("CUDA_INJECTION64_PATH");
  if (!path) return;
  void* const library = dlopen(path, RTLD_NOW);
  if (!library) return;
  using Initialize = int (*)();
  if (const auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjection"))) {
    initialize();
  }
}

}  // namespace

void LoadInjection() {
  static std::once_flag loaded;
  thread_local bool loading = false;  // by this thread: call_once would wait for itself
  if (loading) return;
  loading = true;
  std::call_once(loaded, Load);
  loading = false;
}

}  // namespace standin
