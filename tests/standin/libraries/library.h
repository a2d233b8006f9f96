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
#include <new>
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

// The version of the library that the program would have had, as the variable of the environment
// says
// (`STANDIN_CUDNN_VERSION=9.1.0`): major, minor and patch. Frameworks ask whether it is the one
// that they were made for.
struct Version {
  int major;
  int minor;
  int patch;
};
Version version(const char* variable, Version otherwise);

// Says on stderr, once for each name, that `name` of `library` is not served.
void say_not_served(const char* library, const char* name);

}  // namespace standin_library

#define STANDIN_EXPORT extern "C" __attribute__((visibility("default")))

// The functions of a library that are not written by hand: functions/*.inc, which functions.py
// writes and explains. A library that includes such a file defines before:
//   int Compute(void* handle, std::span<const void* const> arguments);
//   bool AnswersOnDevice(void* handle);
//   constexpr const char* kLibrary; constexpr int kNotSupported;
// As many arguments as any function has, and what lies behind those of others on the caller's
// stack.
#define STANDIN_WORDS(X)                                                                          \
  X(1), X(2), X(3), X(4), X(5), X(6), X(7), X(8), X(9), X(10), X(11), X(12), X(13), X(14), X(15), \
      X(16), X(17), X(18), X(19)
#define STANDIN_PARAMETER(number) const void* word##number
#define STANDIN_WORD(number) word##number

#define COMPUTES(name)                                                      \
  STANDIN_EXPORT int name(void* handle, STANDIN_WORDS(STANDIN_PARAMETER)) { \
    const void* const words[] = {STANDIN_WORDS(STANDIN_WORD)};              \
    return Compute(handle, words);                                          \
  }
// `place`: of the argument, counted from the handle, that is an int of the host's.
#define COMPUTES_WITH_INFO(name, place)                                     \
  STANDIN_EXPORT int name(void* handle, STANDIN_WORDS(STANDIN_PARAMETER)) { \
    const void* const words[] = {STANDIN_WORDS(STANDIN_WORD)};              \
    const int status = Compute(handle, words);                              \
    if (status == 0 && words[place]) {                                      \
      *static_cast<int*>(const_cast<void*>(words[place])) = 0;              \
    }                                                                       \
    return status;                                                          \
  }
#define COMPUTES_INFO5(name) COMPUTES_WITH_INFO(name, 5)
#define COMPUTES_INFO8(name) COMPUTES_WITH_INFO(name, 8)
#define ANSWERS(name)                                                       \
  STANDIN_EXPORT int name(void* handle, STANDIN_WORDS(STANDIN_PARAMETER)) { \
    const void* const words[] = {STANDIN_WORDS(STANDIN_WORD)};              \
    if (AnswersOnDevice(handle)) return Compute(handle, words);             \
    standin_library::say_not_served(kLibrary, #name);                       \
    return kNotSupported;                                                   \
  }
#define CREATES(name)                               \
  STANDIN_EXPORT int name(void** out) {             \
    return out ? (*out = ::operator new(1), 0) : 1; \
  }
#define DESTROYS(name)                  \
  STANDIN_EXPORT int name(void* made) { \
    ::operator delete(made);            \
    return 0;                           \
  }
#define SETS(name)            \
  STANDIN_EXPORT int name() { \
    return 0;                 \
  }
#define FAILS(name)                                   \
  STANDIN_EXPORT int name() {                         \
    standin_library::say_not_served(kLibrary, #name); \
    return kNotSupported;                             \
  }
