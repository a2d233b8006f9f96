// What a symbol means, as the program would have it without us.
#pragma once

#include <atomic>

// The dlsym that real_dlsym() calls, for the exported dlsym, which jumps to it (hook/dlsym.S).
// nullptr before find_real_dlsym().
extern "C" __attribute__((visibility("hidden"))) std::atomic<void* (*)(void*, const char*)>
    cubfc_real_dlsym;

namespace cubfc {

// Sets cubfc_real_dlsym: to the next dlsym in load order, so that another library that overrides
// dlsym keeps its place.
void find_real_dlsym() noexcept;
// Calling it through here makes this library the caller (it matters for RTLD_NEXT).
void* real_dlsym(void* handle, const char* name) noexcept;

// After a look-up that failed: what we look for in vain is nobody's error.
void clear_dlerror() noexcept;

// What `name` would mean to code at `caller` if this library were not loaded; nullptr if nothing.
void* definition_without_us(const char* name, const void* caller) noexcept;

// Whether another library that was preloaded behind this one overrides `name` of the CUDA runtime.
// Takes the loader's lock.
bool is_overridden_behind_us(const char* name) noexcept;

// The function of this name in any CUDA runtime that is loaded; nullptr if none. For cudaMalloc and
// cudaFree, when the caller's own cannot be found: its address is not known after a tail jump.
void* definition_in_loaded_runtime(const char* name) noexcept;

}  // namespace cubfc
