// The wrappers of functions for which the driver takes memory of the device by itself: modules,
// kernels, streams. The driver serves the call. If it lacks memory, and unused memory can be
// released for it, the call is repeated.
#include "shim/hook/calls.h"

namespace cubfc {

using Functions = DriverFunctions;

namespace wrapper {
extern "C" {

CUresult cubfc_cuModuleLoad(CUmodule* module, const char* path) {
  return call_with_room(&Functions::cuModuleLoad, module, path);
}

CUresult cubfc_cuModuleLoadData(CUmodule* module, const void* image) {
  return call_with_room(&Functions::cuModuleLoadData, module, image);
}

CUresult cubfc_cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                                  CUjit_option* options, void** values) {
  // The driver also writes results into the values of options, and a second call would read those
  // of the first as its inputs. So a call with options is not repeated.
  return count == 0
             ? call_with_room(&Functions::cuModuleLoadDataEx, module, image, count, options, values)
             : call(&Functions::cuModuleLoadDataEx, module, image, count, options, values);
}

CUresult cubfc_cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return call_with_room(&Functions::cuModuleLoadFatBinary, module, image);
}

CUresult cubfc_cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options,
                                 void** values, unsigned count, CUlibraryOption* library_options,
                                 void** library_values, unsigned library_count) {
  return count == 0 ? call_with_room(&Functions::cuLibraryLoadData, library, code, options, values,
                                     count, library_options, library_values, library_count)
                    : call(&Functions::cuLibraryLoadData, library, code, options, values, count,
                           library_options, library_values, library_count);
}

CUresult cubfc_cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* options,
                                     void** values, unsigned count,
                                     CUlibraryOption* library_options, void** library_values,
                                     unsigned library_count) {
  return count == 0 ? call_with_room(&Functions::cuLibraryLoadFromFile, library, path, options,
                                     values, count, library_options, library_values, library_count)
                    : call(&Functions::cuLibraryLoadFromFile, library, path, options, values, count,
                           library_options, library_values, library_count);
}

// A module that loads lazily takes its memory when a kernel of it is asked for.
CUresult cubfc_cuModuleGetFunction(CUfunction* function, CUmodule module, const char* symbol) {
  return call_with_room(&Functions::cuModuleGetFunction, function, module, symbol);
}

CUresult cubfc_cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* symbol) {
  return call_with_room(&Functions::cuLibraryGetKernel, kernel, library, symbol);
}

CUresult cubfc_cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return call_with_room(&Functions::cuLibraryGetModule, module, library);
}

CUresult cubfc_cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return call_with_room(&Functions::cuKernelGetFunction, function, kernel);
}

CUresult cubfc_cuCtxSetLimit(CUlimit limit, size_t value) {
  return call_with_room(&Functions::cuCtxSetLimit, limit, value);
}

CUresult cubfc_cuStreamCreate(CUstream* stream, unsigned flags) {
  return call_with_room(&Functions::cuStreamCreate, stream, flags);
}

CUresult cubfc_cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return call_with_room(&Functions::cuStreamCreateWithPriority, stream, flags, priority);
}

CUresult cubfc_cuEventCreate(CUevent* event, unsigned flags) {
  return call_with_room(&Functions::cuEventCreate, event, flags);
}

// A kernel that loads lazily takes its memory at its first launch.
CUresult cubfc_cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                              unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                              unsigned shared_bytes, CUstream stream, void** parameters,
                              void** extra) {
  return call_with_room(&Functions::cuLaunchKernel, function, grid_x, grid_y, grid_z, block_x,
                        block_y, block_z, shared_bytes, stream, parameters, extra);
}

CUresult cubfc_cuLaunchKernelEx(const CUlaunchConfig* configuration, CUfunction function,
                                void** parameters, void** extra) {
  return call_with_room(&Functions::cuLaunchKernelEx, configuration, function, parameters, extra);
}

CUresult cubfc_cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                         unsigned grid_z, unsigned block_x, unsigned block_y,
                                         unsigned block_z, unsigned shared_bytes, CUstream stream,
                                         void** parameters) {
  return call_with_room(&Functions::cuLaunchCooperativeKernel, function, grid_x, grid_y, grid_z,
                        block_x, block_y, block_z, shared_bytes, stream, parameters);
}

CUresult cubfc_cuLaunchKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void** parameters, void** extra) {
  return call_with_room(&Functions::cuLaunchKernel_ptsz, function, grid_x, grid_y, grid_z, block_x,
                        block_y, block_z, shared_bytes, stream, parameters, extra);
}

CUresult cubfc_cuLaunchKernelEx_ptsz(const CUlaunchConfig* configuration, CUfunction function,
                                     void** parameters, void** extra) {
  return call_with_room(&Functions::cuLaunchKernelEx_ptsz, configuration, function, parameters,
                        extra);
}

CUresult cubfc_cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned grid_x, unsigned grid_y,
                                              unsigned grid_z, unsigned block_x, unsigned block_y,
                                              unsigned block_z, unsigned shared_bytes,
                                              CUstream stream, void** parameters) {
  return call_with_room(&Functions::cuLaunchCooperativeKernel_ptsz, function, grid_x, grid_y,
                        grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters);
}

}  // extern "C"
}  // namespace wrapper
}  // namespace cubfc
