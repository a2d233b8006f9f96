// What the exported dlsym (dlsym.S) answers: cubfc's function where the program looks up a driver
// function in the driver, and otherwise what the real dlsym would have answered without cubfc.
#include <dlfcn.h>

#include <cstdint>

#include "shim/hook/nvml.h"
#include "shim/hook/routes.h"
#include "shim/loader/loaded_objects.h"
#include "shim/loader/symbols.h"
#include "shim/process.h"

// Hidden, for dlsym.S.
extern "C" {
struct RoutedSymbol {
  void* address;
  std::uintptr_t ours;  // 0: let the real dlsym answer the caller
};
__attribute__((visibility("hidden"))) RoutedSymbol cubfc_route_dlsym(void* handle, const char* name,
                                                                     const void* caller) noexcept;
}

namespace cubfc {
namespace {

// cuMemAlloc_v2 is a driver name; cudaMalloc and cublasCreate are not.
bool looks_like_driver_name(const char* name) noexcept {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

// Answers that there is no such symbol. The look-up made here searches the objects after cubfc,
// finds nothing, and so sets dlerror as the caller's look-up would have.
RoutedSymbol not_found(const char* name) noexcept {
  return {real_dlsym(RTLD_NEXT, name), 1};
}

constexpr RoutedSymbol kNotOurs{nullptr, 0};

// Look-ups by a dlopen handle only; others are left to the real dlsym.
RoutedSymbol answer_for_nvml(void* handle, const char* name) noexcept {
  if (handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
    return kNotOurs;
  }
  void* const found = real_dlsym(handle, name);
  return {found == nullptr ? nullptr : route_nvml(handle, name, found), 1};
}

RoutedSymbol route(void* handle, const char* name, const void* caller) noexcept {
  if (name == nullptr || name[0] != 'c' || name[1] != 'u') {
    return name != nullptr && is_name_of_nvml_memory(name) ? answer_for_nvml(handle, name)
                                                           : kNotOurs;
  }
  void* const wrapper = exported_wrapper(name);
  if (handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
    // The real dlsym searches relative to the caller. A name that only cubfc exports must not be
    // found.
    void* const found = wrapper == nullptr ? nullptr : definition_without_us(name, caller);
    if (wrapper != nullptr && found == nullptr) {
      return not_found(name);
    }
    // With RTLD_NEXT, a caller that stands before the driver in load order and finds the driver's
    // function gets cubfc's, as it would by a handle. A library that was loaded as a dependency of
    // the driver stands after the driver, and gets the driver's function, for which it has asked.
    const Routes* const routes =
        handle == RTLD_NEXT && found != nullptr && Process::intercepts() ? Routes::find() : nullptr;
    void* const routed = routes == nullptr ? found : routes->route_named(name, found);
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
    const Routes* const routes = Routes::find(handle);
    // Routes::find() may have looked up symbols in vain, and so have set dlerror. The caller's
    // look-up has succeeded. Making it once more clears dlerror.
    address = real_dlsym(handle, name);
    if (routes != nullptr && Process::intercepts()) {
      address = routes->route_named(name, address);
    }
  }
  return {address, 1};
}

}  // namespace
}  // namespace cubfc

RoutedSymbol cubfc_route_dlsym(void* handle, const char* name, const void* caller) noexcept {
  cubfc::find_real_dlsym();
  return cubfc::route(handle, name, caller);
}
