// The runtime's functions that nvcc's code calls before main() to register a program's kernels and
// variables. No header of the toolkit declares them.
#pragma once

#include <cuda_runtime_api.h>

extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaRegisterFunction(void** handle, const char* host_function, char* device_function,
                            const char* name, int thread_limit, uint3* tid, uint3* bid, dim3* block,
                            dim3* grid, int* warp_size);
void __cudaRegisterVar(void** handle, char* host_variable, char* device_address, const char* name,
                       int external, size_t bytes, int constant, int global);
}
