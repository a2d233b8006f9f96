#include "shim/loader/symbols.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

#include "shim/driver/driver.h"
#include "shim/loader/loaded_objects.h"
#include "shim/process.h"

// Hidden, for dlsym.S.
extern "C" {
__attribute__((visibility("hidden"))) std::atomic<void* (*)(void*, const char*)> cubfc_real_dlsym{
    nullptr};

struct RoutedSymbol {
  void* address;
  std::uintptr_t ours;  // 0: let the real dlsym answer the caller
};
__attribute__((visibility("hidden"))) RoutedSymbol cubfc_route_dlsym(void* handle, const char* name,
                                                                     const void* caller) noexcept;
}
static_assert(sizeof(cubfc_real_dlsym) == sizeof(void*));

namespace cubfc {
namespace {

#if defined(__x86_64__)
constexpr const char* kFirstDlsymVersion = "GLIBC_2.2.5";
#elif defined(__aarch64__)
constexpr const char* kFirstDlsymVersion = "GLIBC_2.17";
#endif

using Dlsym = void* (*)(void*, const char*);

// dlvsym is how an overrider of dlsym can find the C library's; that one finds the next in load
// order, which may be another overrider's.
void find_real_dlsym() noexcept {
  if (cubfc_real_dlsym.load(std::memory_order_acquire) != nullptr) {
    return;
  }
  void* of_libc = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (of_libc == nullptr) {
    of_libc = dlvsym(RTLD_NEXT, "dlsym", kFirstDlsymVersion);
  }
  if (of_libc == nullptr) {
    return;
  }
  void* const next = reinterpret_cast<Dlsym>(of_libc)(RTLD_NEXT, "dlsym");
  cubfc_real_dlsym.store(reinterpret_cast<Dlsym>(next != nullptr ? next : of_libc),
                         std::memory_order_release);
}

// cuMemAlloc_v2 is a driver name; cudaMalloc and cublasCreate are not.
bool looks_like_driver_name(const char* name) noexcept {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

// What we have looked up in vain is nobody's error.
void clear_dlerror() noexcept {
  real_dlsym(RTLD_NEXT, "dlsym");  // found
}

// The answer that there is no such symbol, with dlerror set as a look-up that fails sets it.
RoutedSymbol not_found(const char* name) noexcept {
  return {real_dlsym(RTLD_NEXT, name), 1};
}

RoutedSymbol route(void* handle, const char* name, const void* caller) noexcept {
  constexpr RoutedSymbol kNotOurs{nullptr, 0};
  if (name == nullptr || name[0] != 'c' || name[1] != 'u') {
    return kNotOurs;
  }
  void* const wrapper = exported_wrapper(name);
  if (handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
    // Relative to the caller. That we export the name must not make it appear to exist.
    void* const found = wrapper == nullptr ? nullptr : definition_without_us(name, caller);
    if (wrapper != nullptr && found == nullptr) {
      return not_found(name);
    }
    // Who looks behind itself for the driver's function, and finds that, gets our wrapper, as by a
    // handle; but what the driver brings with it gets what it asks for.
    const Driver* const driver =
        handle == RTLD_NEXT && found != nullptr && Process::intercepts() ? Driver::find() : nullptr;
    void* const routed = driver == nullptr ? found : driver->route(found);
    if (routed == found || !is_loaded_before(caller, found)) {
      return kNotOurs;
    }
    clear_dlerror();
    return {routed, 1};
  }
  if (wrapper == nullptr && !looks_like_driver_name(name)) {
    return kNotOurs;
  }
  void* address = real_dlsym(handle, name);
  if (address == nullptr) {
    return {nullptr, 1};  // the call above has set dlerror
  }
  if (address == wrapper) {  // the handle is the main program's
    return definition_without_us(name, caller) != nullptr ? RoutedSymbol{address, 1}
                                                          : not_found(name);
  }
  if (looks_like_driver_name(name)) {
    const Driver* driver = Driver::find(handle);
    // What was looked up meanwhile may have failed. The caller's look-up has not, nor must dlerror
    // say so.
    address = real_dlsym(handle, name);
    if (driver != nullptr && Process::intercepts()) {
      address = driver->route(address);
    }
  }
  return {address, 1};
}

// In what the object at `caller` was linked with, in that order; nullptr if it is not there.
void* definition_linked_with(const char* name, const void* caller) noexcept {
  void* const handle = open_object_with(caller);
  if (handle == nullptr) {
    return nullptr;
  }
  void* const found = real_dlsym(handle, name);
  dlclose(handle);
  return found == exported_wrapper(name) ? nullptr : found;
}

}  // namespace

void* definition_in_loaded_runtime(const char* name) noexcept {
  for (std::size_t number = 0;; ++number) {
    void* const handle = open_cuda_runtime(number);
    if (handle == nullptr) {
      return nullptr;
    }
    void* const found = real_dlsym(handle, name);
    dlclose(handle);
    if (found != nullptr && found != exported_wrapper(name)) {
      return found;
    }
  }
}

void* real_dlsym(void* handle, const char* name) noexcept {
  find_real_dlsym();
  const auto real = cubfc_real_dlsym.load(std::memory_order_acquire);
  return real == nullptr ? nullptr : real(handle, name);
}

void* definition_without_us(const char* name, const void* caller) noexcept {
  // What was loaded with the program, behind this library.
  void* const next = real_dlsym(RTLD_NEXT, name);
  if (next != nullptr && !is_of_cuda_runtime(next)) {
    return next;
  }
  // What the caller was linked with. A Python extension and the libraries it needs see each other,
  // and nobody else sees them; of several CUDA runtimes each has its own, because their symbols
  // have versions.
  void* const own = definition_linked_with(name, caller);
  if (next == nullptr) {
    return own;
  }
  // Not what the caller itself defines, nor what overrides it before us: they have called us.
  return own != nullptr && is_of_cuda_runtime(own) && !in_same_object(own, caller) ? own : next;
}

bool is_overridden_behind_us(const char* name) noexcept {
  void* const next = real_dlsym(RTLD_NEXT, name);
  clear_dlerror();
  return next != nullptr && !is_of_cuda_runtime(next);
}

}  // namespace cubfc

RoutedSymbol cubfc_route_dlsym(void* handle, const char* name, const void* caller) noexcept {
  cubfc::find_real_dlsym();
  return cubfc::route(handle, name, caller);
}
