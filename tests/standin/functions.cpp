// cuFunc*, cuKernel*: what is told of functions, but for their attributes.
#include "behaviour.h"
#include "entry_point.h"
#include "modules.h"

namespace standin {
namespace {

CUresult Exists(const void* handle) {
  const Lock lock(state().mutex);
  const Function* function = nullptr;
  return FindFunction(handle, function);
}

#if CUDA_VERSION >= 12030
CUresult Name(const char** out, const void* handle) {
  const Lock lock(state().mutex);
  const Function* function = nullptr;
  if (!handle) return Behaviour("cuKernelGetName.null");
  if (const CUresult error = FindFunction(handle, function)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = function->name.c_str();
  return CUDA_SUCCESS;
}
#endif

CUresult ParameterInfo(const void* handle, std::size_t index, std::size_t* offset,
                       std::size_t* bytes) {
  const Lock lock(state().mutex);
  const Function* function = nullptr;
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = FindFunction(handle, function)) return error;
  if (!offset) return CUDA_ERROR_INVALID_VALUE;
  if (!FindModule(function->module)->image) return CUDA_ERROR_NOT_SUPPORTED;
  const auto found = function->needs.parameters.find(static_cast<unsigned>(index));
  if (found == function->needs.parameters.end()) return CUDA_ERROR_INVALID_VALUE;
  *offset = found->second.offset;
  if (bytes) *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult OwnerOf(Handle* out, const void* handle) {
  const Lock lock(state().mutex);
  const Function* function = nullptr;
  if (const CUresult error = FindFunction(handle, function)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<Handle>(const_cast<void*>(function->module));
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuKernelGetFunction, (CUfunction * out, CUkernel kernel), (out, kernel)) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(state().mutex);
  Function* function = nullptr;
  if (const CUresult error = FindFunction(kernel, function)) return error;
  *out = reinterpret_cast<CUfunction>(function);
  return CUDA_SUCCESS;
}

ENTRY(cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache config), (function, config)) {
  (void)config;
  return Exists(function);
}

#if CUDA_VERSION >= 12030
ENTRY(cuFuncGetName, (const char** out, CUfunction function), (out, function)) {
  return Name(out, function);
}
ENTRY(cuKernelGetName, (const char** out, CUkernel kernel), (out, kernel)) {
  return Name(out, kernel);
}
#endif

ENTRY(cuFuncGetModule, (CUmodule * out, CUfunction function), (out, function)) {
  return function ? OwnerOf(out, function) : CUDA_ERROR_INVALID_VALUE;
}

#if CUDA_VERSION >= 12040
ENTRY(cuKernelGetLibrary, (CUlibrary * out, CUkernel kernel), (out, kernel)) {
  return OwnerOf(out, kernel);
}
ENTRY(cuFuncGetParamInfo, (CUfunction function, size_t index, size_t* offset, size_t* bytes),
      (function, index, offset, bytes)) {
  return ParameterInfo(function, index, offset, bytes);
}
ENTRY(cuKernelGetParamInfo, (CUkernel kernel, size_t index, size_t* offset, size_t* bytes),
      (kernel, index, offset, bytes)) {
  {
    const Lock lock(state().mutex);
    Context* context = nullptr;
    if (const CUresult error = CurrentContext(context)) return error;
  }
  return ParameterInfo(kernel, index, offset, bytes);
}
// All are loaded with their module.
ENTRY(cuFuncIsLoaded, (CUfunctionLoadingState * out, CUfunction function), (out, function)) {
  if (const CUresult error = Exists(function)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}
ENTRY(cuFuncLoad, (CUfunction function), (function)) {
  return Exists(function);
}
#endif
