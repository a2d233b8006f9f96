// A preloaded library that overrides a function and finds the real one with RTLD_NEXT, as many do.
#include <dlfcn.h>

namespace {
int calls = 0;
}

extern "C" __attribute__((visibility("default"))) int next_library_calls() {
  return calls;
}

// A name that looks like the driver's and is not.
extern "C" __attribute__((visibility("default"))) void cuThingOfAnother() {}

extern "C" __attribute__((visibility("default"))) int puts(const char* text) {
  using Puts = int (*)(const char*);
  static const Puts kReal = reinterpret_cast<Puts>(dlsym(RTLD_NEXT, "puts"));
  ++calls;
  return kReal(text);
}
