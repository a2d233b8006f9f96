// Symbol look-up as the program would have it without us. Knows the dynamic linker; nothing of
// CUDA's meaning.
#pragma once

namespace cubfc {

// The dlsym behind ours: the next one in load order, so that another library that overrides dlsym
// keeps its place. Calling it through here makes this library the caller (it matters for
// RTLD_NEXT).
void* real_dlsym(void* handle, const char* name) noexcept;

// What `name` would mean to code at `caller` if this library were not loaded; nullptr if nothing.
void* definition_without_us(const char* name, const void* caller) noexcept;

// Whether another library that was preloaded behind this one overrides `name` of the CUDA runtime.
bool is_overridden_behind_us(const char* name) noexcept;

// The same name in a CUDA runtime library that is loaded, whoever can see it; nullptr if there is
// none. For a caller that is not where the call comes from: a tail jump, a pointer to the function.
void* definition_in_loaded_runtime(const char* name) noexcept;

}  // namespace cubfc
