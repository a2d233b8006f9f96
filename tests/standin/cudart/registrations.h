// The kernels and variables that code of nvcc's has registered, by the addresses of what stands for
// them on the host.
#pragma once

#include <cstddef>

#include "runtime.h"

namespace cudart {

// Loads the kernel's binary with the first kernel of it that is used. Takes a kernel's handle, too.
// Errors: cudaErrorInvalidDeviceFunction for what was not registered.
cudaError_t FindKernel(const Driver& driver, const void* function, CUkernel* out);
cudaError_t FindFunction(const Driver& driver, const void* host_function, CUfunction* out);

// From now on the handle may stand in a host function's place.
void KnowKernel(CUkernel kernel);

// The other way round: what a program calls the kernel, or the function where kernel is null. What
// was not registered is called by its handle.
void* HostFunctionOf(const Driver& driver, CUkernel kernel, CUfunction function);

// A variable of the device lies in pinned memory of the host: the binaries of nvcc's are not read,
// and it is no allocation of the program's. Errors: cudaErrorInvalidSymbol.
cudaError_t FindVariable(const Driver& driver, const void* symbol, CUdeviceptr* out,
                         std::size_t* bytes);

// The variables that were used on the device are new ones when they are used again.
void ForgetVariables(int device);

// The address of `count` bytes of the variable from `offset` on.
cudaError_t FindInVariable(const Driver& driver, const void* symbol, std::size_t offset,
                           std::size_t count, CUdeviceptr* out);

}  // namespace cudart
