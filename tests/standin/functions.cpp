// cuFunc*, cuKernel*: what is told of functions. A CUfunction and a CUkernel are the same here.
#include "behaviour.h"
#include "entry_point.h"
#include "modules.h"

namespace standin {
namespace {

CUresult Attribute(int* out, CUfunction_attribute attribute, const void* handle) {
  const Lock lock(state().mutex);
  const Function* function = nullptr;
  if (const CUresult error = FindFunction(handle, function)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const KernelNeeds& needs = function->needs;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *out = static_cast<int>(needs.most_threads);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *out = static_cast<int>(needs.registers);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *out = static_cast<int>(needs.shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *out = static_cast<int>(needs.local_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *out = static_cast<int>(needs.constant_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *out = 90;
      break;
    default:
      *out = 0;
  }
  return CUDA_SUCCESS;
}

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
  *out = reinterpret_cast<CUfunction>(kernel);
  return Exists(kernel);
}

ENTRY(cuKernelGetAttribute,
      (int* out, CUfunction_attribute attribute, CUkernel kernel, CUdevice device),
      (out, attribute, kernel, device)) {
  (void)device;
  return Attribute(out, attribute, kernel);
}

ENTRY(cuKernelSetAttribute,
      (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),
      (attribute, value, kernel, device)) {
  (void)attribute, (void)value, (void)device;
  return Exists(kernel);
}

ENTRY(cuFuncGetAttribute, (int* out, CUfunction_attribute attribute, CUfunction function),
      (out, attribute, function)) {
  return Attribute(out, attribute, function);
}

ENTRY(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value),
      (function, attribute, value)) {
  (void)attribute, (void)value;
  return Exists(function);
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
  return OwnerOf(out, function);
}
ENTRY(cuKernelSetCacheConfig, (CUkernel kernel, CUfunc_cache config, CUdevice device),
      (kernel, config, device)) {
  (void)config, (void)device;
  return Exists(kernel);
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
