// Preloaded into the program that `cubfc fit` runs, so that PyTorch takes the same memory whether
// or not values are followed.
//
// cubfc_fit follows values in a mode of torch.utils._python_dispatch. PyTorch's autograd asks
// c10::impl::dispatch_mode_enabled() whether there is a mode. If there is one, autograd adds
// gradients into new memory instead of in place, because a mode might return something that is no
// plain tensor. cubfc_fit's mode never does. So callers outside libtorch_python.so, autograd among
// them, are answered with no. libtorch_python.so, which calls modes, gets PyTorch's own answer.
#include <dlfcn.h>

#include <string_view>

namespace {

// The library that asks because it calls modes.
constexpr std::string_view kPythonsPart = "/libtorch_python.so";

bool is_pythons_part(const void* address) {
  Dl_info found{};
  return dladdr(address, &found) != 0 && found.dli_fname &&
         std::string_view(found.dli_fname).ends_with(kPythonsPart);
}

// PyTorch's own function. RTLD_NEXT would not find it: Python loads its library for itself alone.
auto find_pytorchs() {
  void* const library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<bool (*)()>(
      library ? dlsym(library, "_ZN3c104impl21dispatch_mode_enabledEv") : nullptr);
}

}  // namespace

namespace c10::impl {

__attribute__((visibility("default"))) bool dispatch_mode_enabled();
bool dispatch_mode_enabled() {
  static const auto pytorchs = find_pytorchs();
  // Remembers the last caller: a few places ask, each very often.
  thread_local const void* last = nullptr;
  thread_local bool last_is_pythons_part = false;
  const void* const caller = __builtin_return_address(0);
  if (caller != last) {
    last_is_pythons_part = is_pythons_part(caller);
    last = caller;
  }
  return last_is_pythons_part && pytorchs && pytorchs();
}

}  // namespace c10::impl
