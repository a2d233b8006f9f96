#include "shim/loader/symbols.h"

#include <dlfcn.h>

#include "shim/loader/loaded_objects.h"

std::atomic<void* (*)(void*, const char*)> cubfc_real_dlsym{nullptr};
static_assert(sizeof(cubfc_real_dlsym) == sizeof(void*));

namespace cubfc {
namespace {

#if defined(__x86_64__)
constexpr const char* kFirstDlsymVersion = "GLIBC_2.2.5";
#elif defined(__aarch64__)
constexpr const char* kFirstDlsymVersion = "GLIBC_2.17";
#endif

using Dlsym = void* (*)(void*, const char*);

bool is_ours(const void* function) noexcept {
  return in_same_object(function, &cubfc_real_dlsym);
}

// The definition in the object at `caller` or in the libraries that it was linked with, in that
// order; nullptr if there is none, or if it is ours.
void* definition_linked_with(const char* name, const void* caller) noexcept {
  void* const handle = open_object_with(caller);
  if (handle == nullptr) {
    return nullptr;
  }
  void* const found = real_dlsym(handle, name);
  dlclose(handle);
  return is_ours(found) ? nullptr : found;
}

}  // namespace

// dlvsym finds the C library's dlsym, even if another library overrides dlsym. The C library's
// dlsym then finds the next dlsym in load order, which may be that other library's.
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

void clear_dlerror() noexcept {
  real_dlsym(RTLD_NEXT, "dlsym");  // a look-up that succeeds clears the error
}

void* definition_in_loaded_runtime(const char* name) noexcept {
  for (std::size_t number = 0;; ++number) {
    void* const handle = open_cuda_runtime(number);
    if (handle == nullptr) {
      return nullptr;
    }
    void* const found = real_dlsym(handle, name);
    dlclose(handle);
    if (found != nullptr && !is_ours(found)) {
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
  // A definition that comes after this library in load order.
  void* const next = real_dlsym(RTLD_NEXT, name);
  if (next != nullptr && !is_of_cuda_runtime(next)) {
    return next;
  }
  // A definition that the caller was linked with. A Python extension and the libraries it needs see
  // each other's definitions, but no other object sees these. If several CUDA runtimes are loaded,
  // each caller has to get the one that it was linked with: their symbols have different versions.
  void* const own = definition_linked_with(name, caller);
  if (next == nullptr) {
    return own;
  }
  // `own` is returned only if it lies in a CUDA runtime and not in the caller itself. Another
  // definition may be the function that has just called us: the caller's own, or that of a library
  // before us that overrides the function. We would call it again, without end.
  return own != nullptr && is_of_cuda_runtime(own) && !in_same_object(own, caller) ? own : next;
}

bool is_overridden_behind_us(const char* name) noexcept {
  void* const next = real_dlsym(RTLD_NEXT, name);
  clear_dlerror();
  return next != nullptr && !is_of_cuda_runtime(next);
}

}  // namespace cubfc
