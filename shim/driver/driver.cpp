#include "shim/driver/driver.h"

#include <dlfcn.h>

#include <array>
#include <new>

#include "shim/hook/runtime_entry_points.h"
#include "shim/loader/symbols.h"

namespace cubfc {
namespace {

constexpr const char* kDriverSoname = "libcuda.so.1";

const std::array<EntryPoint, kEntryPointCount>& table() {
  static const std::array<EntryPoint, kEntryPointCount> kTable{{
#define CUBFC_ROW(name, base, version, per_thread, parameters)   \
  EntryPoint{#name,                                              \
             base,                                               \
             version,                                            \
             (per_thread) != 0,                                  \
             reinterpret_cast<void*>(&wrapper::exported_##name), \
             [](const DriverFunctions& f) { return reinterpret_cast<void*>(f.name); }},
      CUBFC_ENTRY_POINTS(CUBFC_ROW)
#undef CUBFC_ROW
  }};
  return kTable;
}

// The handle under which the program has the driver loaded. It is kept for good: the functions in
// the table stay valid when the program closes its own.
void* find_handle(void* hint) noexcept {
  if (void* handle = dlopen(kDriverSoname, RTLD_LAZY | RTLD_NOLOAD); handle != nullptr) {
    return handle;
  }
  if (hint == nullptr) {
    return nullptr;
  }
  // Loaded under another soname: the object that defines both names, in our own namespace.
  Lmid_t name_space = LM_ID_BASE;
  void* const version = real_dlsym(hint, "cuDriverGetVersion");
  void* const allocate = real_dlsym(hint, "cuMemAlloc_v2");
  Dl_info version_in;
  Dl_info allocate_in;
  if (version == nullptr || allocate == nullptr || allocate == exported_wrapper("cuMemAlloc_v2") ||
      dlinfo(hint, RTLD_DI_LMID, &name_space) != 0 || name_space != LM_ID_BASE ||
      dladdr(version, &version_in) == 0 || dladdr(allocate, &allocate_in) == 0 ||
      version_in.dli_fbase != allocate_in.dli_fbase) {
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

EntryPoints entry_points() {
  return {table().data(), table().size()};
}

void* exported_wrapper(std::string_view name) {
  for (const EntryPoint& entry : table()) {
    if (entry.name == name) {
      return entry.wrapper;
    }
  }
  return runtime_wrapper(name);
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
  for (const EntryPoint& entry : entry_points()) {
    add_route(entry.real(functions_), entry.wrapper);
  }
}

void* Driver::route(void* address) const {
  for (const Route& route : routes_) {
    void* const known = route.address.load(std::memory_order_acquire);
    if (known == nullptr) {
      break;
    }
    if (known == address) {
      void* wrapper = nullptr;
      while ((wrapper = route.wrapper.load(std::memory_order_acquire)) == nullptr) {
        // Another thread is between the two stores of add_route.
      }
      return wrapper;
    }
  }
  return address;
}

void Driver::add_route(void* address, void* wrapper) const {
  if (address == nullptr) {
    return;
  }
  for (Route& route : routes_) {
    void* known = nullptr;
    if (route.address.compare_exchange_strong(known, address, std::memory_order_acq_rel)) {
      route.wrapper.store(wrapper, std::memory_order_release);
      return;
    }
    if (known == address) {
      return;
    }
  }
}

void Driver::learn(std::string_view base) const {
  // cuda.h: CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
  constexpr cuuint64_t kLegacyStream = 1;
  constexpr cuuint64_t kPerThreadStream = 2;
  for (const EntryPoint& entry : entry_points()) {
    if (entry.base != base || entry.version > version_) {
      continue;
    }
    void* address = nullptr;
    const cuuint64_t flags = entry.per_thread ? kPerThreadStream : kLegacyStream;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (functions_.cuGetProcAddress_v2 != nullptr) {
      CUdriverProcAddressQueryResult status{};
      result = functions_.cuGetProcAddress_v2(entry.base.data(), &address, entry.version, flags,
                                              &status);
    }
    if (result == CUDA_SUCCESS) {
      add_route(address, entry.wrapper);
    }
  }
}

}  // namespace cubfc
