// Looks driver names up while it is being loaded, from its constructor and from a thread that the
// constructor waits for no longer than any program could.
#include <dlfcn.h>

#include <initializer_list>

namespace {

__attribute__((constructor)) void look_up() {
  if (void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    for (const char* name : {"cuInit", "cuMemAlloc_v2", "cuGetProcAddress_v2", "cuNoSuchThing"}) {
      (void)dlsym(driver, name);
    }
    dlclose(driver);
  }
}

}  // namespace
