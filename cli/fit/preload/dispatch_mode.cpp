// Preloaded into the program that `cubfc fit` runs, so that PyTorch takes the same memory whether
// or not values are followed.
//
// cubfc_fit follows values in a mode of torch.utils._python_dispatch. PyTorch's autograd asks
// c10::impl::dispatch_mode_enabled() whether there is one, and then adds gradients into new memory
// instead of in place, because a mode might return what is no plain tensor. This one never does. So
// autograd's question is answered with no; all others, which must know of the mode, get PyTorch's
// own answer.
#include <dlfcn.h>

#include <string_view>

namespace {

// What asks because it calls modes.
constexpr std::string_view kPythonsPart = "/libtorch_python.so";

bool is_pythons_part(const void* address) {
  Dl_info found{};
  return dladdr(address, &found) != 0 && found.dli_fname &&
         std::string_view(found.dli_fname).ends_with(kPythonsPart);
}

// It is in a library that Python loads for itself alone: RTLD_NEXT would not find it.
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
  // A few places ask, each very often.
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
