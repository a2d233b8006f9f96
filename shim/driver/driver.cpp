#include "shim/driver/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <new>

#include "shim/loader/symbols.h"

namespace cubfc {
namespace {

constexpr const char* kDriverSoname = "libcuda.so.1";

// A dlopen handle of the driver that the program has loaded. It is never closed, so the functions
// in the table stay valid when the program closes its own handle.
void* find_handle(void* hint) noexcept {
  if (void* handle = dlopen(kDriverSoname, RTLD_LAZY | RTLD_NOLOAD); handle != nullptr) {
    return handle;
  }
  if (hint == nullptr) {
    return nullptr;
  }
  // The driver may be loaded under another soname. Then it is the object in our own linker
  // namespace that defines both of these names. It is not this library, which does not export the
  // first name.
  Lmid_t name_space = LM_ID_BASE;
  void* const version = real_dlsym(hint, "cuDriverGetVersion");
  void* const allocate = real_dlsym(hint, "cuMemAlloc_v2");
  Dl_info version_in;
  Dl_info allocate_in;
  if (version == nullptr || allocate == nullptr || dlinfo(hint, RTLD_DI_LMID, &name_space) != 0 ||
      name_space != LM_ID_BASE || dladdr(version, &version_in) == 0 ||
      dladdr(allocate, &allocate_in) == 0 || version_in.dli_fbase != allocate_in.dli_fbase) {
    return nullptr;
  }
  return dlopen(version_in.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

template <typename Function>
void look_up(Function*& function, void* handle, const char* name) {
  function = reinterpret_cast<Function*>(real_dlsym(handle, name));
}

}  // namespace

const char* name_of(const DriverFunctions& driver, CUresult result) noexcept {
  const char* name = "CUDA_SUCCESS";
  const bool known =
      result == CUDA_SUCCESS ||
      (driver.cuGetErrorName != nullptr && driver.cuGetErrorName(result, &name) == CUDA_SUCCESS);
  return known ? name : "an error without a name";
}

const Driver* Driver::find(void* handle) {
  static std::atomic<const Driver*> found{nullptr};
  if (const Driver* driver = found.load(std::memory_order_acquire); driver != nullptr) {
    return driver;
  }
  void* const library = find_handle(handle);
  if (library == nullptr) {
    return nullptr;
  }
  // Takes no lock: a thread that holds the loader's lock might wait for it while this thread needs
  // the loader's lock for dlsym. If two threads build the table at once, one table is kept.
  const Driver* made = new (std::nothrow) Driver(library);
  const Driver* expected = nullptr;
  if (made != nullptr &&
      !found.compare_exchange_strong(expected, made, std::memory_order_acq_rel)) {
    delete made;
    return expected;
  }
  return made;
}

void* Driver::function_named(const char* name) const noexcept {
  return real_dlsym(handle_, name);
}

Driver::Driver(void* handle) : handle_(handle) {
#define CUBFC_LOOK_UP(name, base, version, per_thread, parameters) \
  look_up(functions_.name, handle, #name);
#define CUBFC_LOOK_UP_CALLED(name, parameters) look_up(functions_.name, handle, #name);
  CUBFC_ENTRY_POINTS(CUBFC_LOOK_UP)
  CUBFC_CALLED_FUNCTIONS(CUBFC_LOOK_UP_CALLED)
#undef CUBFC_LOOK_UP
#undef CUBFC_LOOK_UP_CALLED
  if (functions_.cuDriverGetVersion != nullptr) {
    functions_.cuDriverGetVersion(&version_);
  }
}

}  // namespace cubfc
