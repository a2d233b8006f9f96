// The program and the libraries loaded in the process, told by an address in them or by name. Looks
// up no symbols: that is symbols.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cubfc {

bool in_same_object(const void* one, const void* other) noexcept;

// Whether the object at `one` stands in load order before that at `other`, which is another.
bool is_loaded_before(const void* one, const void* other) noexcept;

// Another number after each object that is loaded or unloaded.
std::uint64_t objects_generation() noexcept;

// A dlopen handle of the object that contains the address, which the caller closes; nullptr if
// none.
void* open_object_with(const void* address) noexcept;

// The file name of a library that is loaded and by which XLA or TensorFlow use GPUs; nullptr if
// none is. Static storage.
const char* loaded_xla_runtime() noexcept;

// Whether the function lies in a library named libcudart*.
bool is_of_cuda_runtime(const void* function) noexcept;
// Whether it lies in a library named libnvidia-ml*.
bool is_of_nvml(const void* function) noexcept;
// A dlopen handle of the loaded CUDA runtime number `number`, from 0 in load order, which the
// caller closes; nullptr if there are not so many.
void* open_cuda_runtime(std::size_t number) noexcept;

}  // namespace cubfc
