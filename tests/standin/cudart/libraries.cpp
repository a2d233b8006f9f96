// cudaLibrary*, cudaKernel*: code that a program loads by itself.
#include "runtime.h"

#if CUDART_VERSION >= 12080  // the first runtime that has them

using namespace cudart;

namespace {

// Options of the runtime's have the numbers of the driver's.
CUjit_option* Options(cudaJitOption* options) {
  return reinterpret_cast<CUjit_option*>(options);
}
CUlibraryOption* Options(cudaLibraryOption* options) {
  return reinterpret_cast<CUlibraryOption*>(options);
}
CUlibrary Library(cudaLibrary_t library) {
  return reinterpret_cast<CUlibrary>(library);
}

}  // namespace

CUDART_API cudaLibraryLoadData(cudaLibrary_t* out, const void* code, cudaJitOption* options,
                               void** values, unsigned count, cudaLibraryOption* library_options,
                               void** library_values, unsigned library_count) {
  return WithContext([&](const Driver& driver) {
    return driver.cuLibraryLoadData(reinterpret_cast<CUlibrary*>(out), code, Options(options),
                                    values, count, Options(library_options), library_values,
                                    library_count);
  });
}

CUDART_API cudaLibraryLoadFromFile(cudaLibrary_t* out, const char* path, cudaJitOption* options,
                                   void** values, unsigned count,
                                   cudaLibraryOption* library_options, void** library_values,
                                   unsigned library_count) {
  return WithContext([&](const Driver& driver) {
    return driver.cuLibraryLoadFromFile(reinterpret_cast<CUlibrary*>(out), path, Options(options),
                                        values, count, Options(library_options), library_values,
                                        library_count);
  });
}

CUDART_API cudaLibraryUnload(cudaLibrary_t library) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuLibraryUnload(Library(library)); });
}

CUDART_API cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t library, const char* name) {
  return WithContext([&](const Driver& driver) {
    return driver.cuLibraryGetKernel(reinterpret_cast<CUkernel*>(out), Library(library), name);
  });
}

CUDART_API cudaLibraryGetKernelCount(unsigned* out, cudaLibrary_t library) {
  return WithContext(
      [&](const Driver& driver) { return driver.cuLibraryGetKernelCount(out, Library(library)); });
}

CUDART_API cudaLibraryGetGlobal(void** out, size_t* bytes, cudaLibrary_t library,
                                const char* name) {
  return WithContext([&](const Driver& driver) {
    return driver.cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(out), bytes, Library(library),
                                     name);
  });
}

CUDART_API cudaLibraryGetManaged(void** out, size_t* bytes, cudaLibrary_t library,
                                 const char* name) {
  return WithContext([&](const Driver& driver) {
    return driver.cuLibraryGetManaged(reinterpret_cast<CUdeviceptr*>(out), bytes, Library(library),
                                      name);
  });
}

CUDART_API cudaLibraryGetUnifiedFunction(void** out, cudaLibrary_t library, const char* name) {
  return WithContext([&](const Driver& driver) {
    return driver.cuLibraryGetUnifiedFunction(out, Library(library), name);
  });
}

CUDART_API cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                           int value, int device) {
  return WithContext([&](const Driver& driver) {
    return driver.cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value,
                                       reinterpret_cast<CUkernel>(kernel), device);
  });
}

#endif
