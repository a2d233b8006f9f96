// Looks symbols up as the program would find them without this library.
#pragma once

#include <atomic>

// The next dlsym in load order behind this library's own. real_dlsym() calls it. The dlsym that
// this library exports (hook/dlsym.S) jumps to it. nullptr before find_real_dlsym().
extern "C" __attribute__((visibility("hidden"))) std::atomic<void* (*)(void*, const char*)>
    cubfc_real_dlsym;

namespace cubfc {

// Sets cubfc_real_dlsym, at the first call, to the next dlsym in load order, so that another
// library that overrides dlsym still sees the call.
void find_real_dlsym() noexcept;
// Calls the real dlsym with this library as the caller, from which RTLD_NEXT searches.
void* real_dlsym(void* handle, const char* name) noexcept;

// Called after a look-up of our own that may have failed, so that the program's dlerror() does not
// report it.
void clear_dlerror() noexcept;

// What `name` would mean to code at `caller` if this library were not loaded; nullptr if nothing.
void* definition_without_us(const char* name, const void* caller) noexcept;

// Whether another library that was preloaded behind this one overrides `name` of the CUDA runtime.
// Takes the loader's lock.
bool is_overridden_behind_us(const char* name) noexcept;

// The function of this name in the first loaded CUDA runtime that has it; nullptr if none has.
// Called for cudaMalloc and cudaFree when definition_without_us() finds nothing. That happens if
// the program's function ended in a tail jump to ours: the return address is then not in the object
// that was linked with the runtime.
void* definition_in_loaded_runtime(const char* name) noexcept;

}  // namespace cubfc
