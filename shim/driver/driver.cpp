#include "shim/driver/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <new>

#include "shim/loader/symbols.h"

namespace cubfc {
namespace {

constexpr const char* kDriverSoname = "libcuda.so.1";

// The handle under which the program has the driver loaded. It is kept for good: the functions in
// the table stay valid when the program closes its own.
void* find_handle(void* hint) noexcept {
  if (void* handle = dlopen(kDriverSoname, RTLD_LAZY | RTLD_NOLOAD); handle != nullptr) {
    return handle;
  }
  if (hint == nullptr) {
    return nullptr;
  }
  // Loaded under another soname: the object that defines both names, the first of which we do not
  // export, in our own namespace.
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
  // Without a lock: one held here could be waited for by a thread that holds the loader's, which
  // dlsym needs. Two threads may both build the table; one is kept.
  const Driver* made = new (std::nothrow) Driver(library);
  const Driver* expected = nullptr;
  if (made != nullptr &&
      !found.compare_exchange_strong(expected, made, std::memory_order_acq_rel)) {
    delete made;
    return expected;
  }
  return made;
}

Driver::Driver(void* handle) {
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
