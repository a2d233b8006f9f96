// Finds the objects loaded in the process, the program and its libraries, by an address in them or
// by name. Looks up no symbols: symbols.h does that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cubfc {

bool in_same_object(const void* one, const void* other) noexcept;

// Whether the object at `one` comes before the object at `other` in load order. False if both are
// the same object.
bool is_loaded_before(const void* one, const void* other) noexcept;

// A number that changes with each object that is loaded or unloaded.
std::uint64_t objects_generation() noexcept;

// A dlopen handle of the object that contains the address, which the caller closes; nullptr if
// none.
void* open_object_with(const void* address) noexcept;

// The file name of a loaded library through which XLA or TensorFlow uses GPUs; nullptr if there is
// none. Static storage.
const char* loaded_xla_runtime() noexcept;

// The first of these beginnings of file names that a loaded library has; nullptr if none has any.
const char* loaded_library(std::span<const std::string_view> beginnings) noexcept;

// Whether the function lies in a library named libcudart*.
bool is_of_cuda_runtime(const void* function) noexcept;
// Whether the function lies in a library named libnvidia-ml*.
bool is_of_nvml(const void* function) noexcept;
// A dlopen handle of a loaded CUDA runtime, which the caller closes; nullptr if there are not so
// many. `number` counts the runtimes from 0 in load order.
void* open_cuda_runtime(std::size_t number) noexcept;

}  // namespace cubfc
