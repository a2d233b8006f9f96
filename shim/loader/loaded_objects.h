// The program and the libraries that are loaded in the process, told by addresses in them. Knows
// the dynamic linker; no symbol but dladdr's and its like is looked up here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cubfc {

bool in_same_object(const void* one, const void* other) noexcept;

// Whether the object at `one` stands in load order before that at `other`, which is another.
bool is_loaded_before(const void* one, const void* other) noexcept;

// Another number after each object that is loaded or unloaded.
std::uint64_t objects_generation() noexcept;

// A handle on the object, to be closed, as its own dlopen would give; nullptr if there is none.
void* open_object_with(const void* address) noexcept;

// CUDA runtimes are told by their names.
bool is_of_cuda_runtime(const void* function) noexcept;
// A handle on one of those that are loaded, to be closed; nullptr if there are no more than
// `number`.
void* open_cuda_runtime(std::size_t number) noexcept;

}  // namespace cubfc
