// cudaLibrary*, cudaKernel*: code that a program loads by itself.
#include <algorithm>

#include "forward.h"
#include "registrations.h"

#if CUDART_VERSION >= 12080  // the first runtime that has them

using namespace cudart;

// Options of the runtime's have the numbers of the driver's.
CUDART_FORWARD(8, cudaLibraryLoadData, cuLibraryLoadData)
CUDART_FORWARD(8, cudaLibraryLoadFromFile, cuLibraryLoadFromFile)
CUDART_FORWARD(1, cudaLibraryUnload, cuLibraryUnload)
CUDART_FORWARD(2, cudaLibraryGetKernelCount, cuLibraryGetKernelCount)
CUDART_FORWARD(4, cudaLibraryGetGlobal, cuLibraryGetGlobal)
CUDART_FORWARD(4, cudaLibraryGetManaged, cuLibraryGetManaged)
CUDART_FORWARD(3, cudaLibraryGetUnifiedFunction, cuLibraryGetUnifiedFunction)

CUDART_API cudaLibraryGetKernel(cudaKernel_t* out, cudaLibrary_t library, const char* name) {
  return WithContext([&](const Driver& driver) {
    const auto kernel = reinterpret_cast<CUkernel*>(out);
    const cudaError_t error =
        Ask(driver.cuLibraryGetKernel, kernel, reinterpret_cast<CUlibrary>(library), name);
    if (error == cudaSuccess) KnowKernel(*kernel);
    return error;
  });
}

CUDART_API cudaLibraryEnumerateKernels(cudaKernel_t* out, unsigned count, cudaLibrary_t library) {
  return WithContext([&](const Driver& driver) {
    const auto kernels = reinterpret_cast<CUkernel*>(out);
    const auto of = reinterpret_cast<CUlibrary>(library);
    unsigned has = 0;
    if (const CUresult error = driver.cuLibraryGetKernelCount(&has, of)) return error;
    if (const CUresult error = driver.cuLibraryEnumerateKernels(kernels, count, of)) return error;
    for (unsigned i = 0; i < std::min(count, has); ++i) KnowKernel(kernels[i]);
    return CUDA_SUCCESS;
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
