// A preloaded library that overrides dlsym itself, as tracers do, and says at exit that it was
// asked.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>

namespace {

std::atomic<int> seen{0};

__attribute__((destructor)) void tell() {
  if (seen > 0) {
    constexpr char kText[] = "look-ups seen\n";
    (void)!write(2, kText, sizeof kText - 1);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle,
                                                              const char* name) noexcept {
  using Dlsym = void* (*)(void*, const char*);
  static const Dlsym kReal = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"));
  ++seen;
  return kReal(handle, name);
}
