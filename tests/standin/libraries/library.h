// What the stand-ins of NVIDIA's libraries have in common. A stand-in computes nothing: what the
// real library would launch is a launch of a kernel that does nothing, in the stream of the handle,
// as all kernels are on the software driver. A function that would have to return a result of a
// computation fails, and says its name.
//
// No header of NVIDIA's is needed: handles are pointers, sizes of other arguments are the ABI's,
// and the functions below name only the arguments that they look at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace standin_library {

// The entry `name` of the driver, which is loaded at first use; null where there is none.
void* driver_function(const char* name);

// Launches a kernel that does nothing in `stream` of the current context, with these words as its
// arguments: which blocks of memory a kernel gets is seen by the driver. 0, or the driver's error.
int launch(void* stream, std::span<const void* const> arguments = {});

// `bytes` of the current context's memory, taken as the real libraries take theirs: by cuMemAlloc.
// Null when it has none.
void* allocate(std::size_t bytes);
void release(void* memory);

// The current device's attribute of this number (CUdevice_attribute), or `otherwise` where no
// context is current.
int device_attribute(int attribute, int otherwise);

// Says on stderr, once for each name, that `name` of `library` is not served.
void say_not_served(const char* library, const char* name);

}  // namespace standin_library

#define STANDIN_EXPORT extern "C" __attribute__((visibility("default")))
