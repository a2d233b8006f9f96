// cuModule*, cuLibrary*, cuKernel*, cuFunc*. Images are taken unread: a module has every function
// that it is asked for.
#include "modules.h"

#include <fstream>

#include "behaviour.h"
#include "entry_point.h"

namespace standin {
namespace {

struct Module {
  std::map<std::string, std::shared_ptr<Function>, std::less<>> functions;
};

// Guarded by state().mutex. A CUmodule and a CUlibrary are the same here.
Registry<void*, Module>& modules() {
  static auto* const instance = new Registry<void*, Module>;
  return *instance;
}

Registry<const void*, Function>& functions() {
  static auto* const instance = new Registry<const void*, Function>;
  return *instance;
}

template <typename Handle>
CUresult Load(Handle* out, const void* image) {
  if (!out || !image) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(state().mutex);
  *out = reinterpret_cast<Handle>(AddTo(modules(), std::make_shared<Module>()));
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult LoadHere(Handle* out, const void* image) {
  {
    const Lock lock(state().mutex);
    Context* context = nullptr;
    if (const CUresult error = CurrentContext(context)) return error;
  }
  return Load(out, image);
}

CUresult Unload(void* handle) {
  const Lock lock(state().mutex);
  const auto found = modules().find(handle);
  if (found == modules().end()) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, function] : found->second->functions) functions().erase(function.get());
  modules().erase(found);
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult GetFunction(Handle* out, void* handle, const char* name) {
  const Lock lock(state().mutex);
  const auto found = modules().find(handle);
  if (!out || !name || found == modules().end()) return CUDA_ERROR_INVALID_VALUE;
  if (!*name) return Behaviour("cuModuleGetFunction.not_found");
  std::shared_ptr<Function>& function = found->second->functions[name];
  if (!function) {
    function = std::make_shared<Function>(Function{.name = name, .kernel = FindKernel(name)});
    functions()[function.get()] = function;
  }
  *out = reinterpret_cast<Handle>(function.get());
  return CUDA_SUCCESS;
}

CUresult Attribute(int* out, CUfunction_attribute attribute, const void* handle) {
  const Lock lock(state().mutex);
  const Function* function = nullptr;
  if (const CUresult error = FindFunction(handle, function)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
         : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
         : attribute == CU_FUNC_ATTRIBUTE_PTX_VERSION         ? 90
         : attribute == CU_FUNC_ATTRIBUTE_BINARY_VERSION      ? 90
                                                              : 0;
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

}  // namespace

CUresult FindFunction(const void* handle, const Function*& out) {
  const auto found = functions().find(handle);
  if (found == functions().end()) return CUDA_ERROR_INVALID_HANDLE;
  out = found->second.get();
  return CUDA_SUCCESS;
}

}  // namespace standin

using namespace standin;

ENTRY(cuModuleLoadData, (CUmodule * out, const void* image), (out, image)) {
  return LoadHere(out, image);
}
ENTRY(cuModuleLoad, (CUmodule * out, const char* path), (out, path)) {
  if (path && !std::ifstream(path)) return CUDA_ERROR_FILE_NOT_FOUND;
  return LoadHere(out, path);
}
ENTRY(cuModuleLoadFatBinary, (CUmodule * out, const void* image), (out, image)) {
  return LoadHere(out, image);
}
ENTRY(cuModuleLoadDataEx,
      (CUmodule * out, const void* image, unsigned count, CUjit_option* options, void** values),
      (out, image, count, options, values)) {
  (void)count, (void)options, (void)values;
  return LoadHere(out, image);
}
ENTRY(cuModuleUnload, (CUmodule module), (module)) {
  return Unload(module);
}

ENTRY(cuModuleGetFunction, (CUfunction * out, CUmodule module, const char* name),
      (out, module, name)) {
  return GetFunction(out, module, name);
}

ENTRY(cuModuleGetGlobal_v2, (CUdeviceptr * out, size_t* bytes, CUmodule module, const char* name),
      (out, bytes, module, name)) {
  (void)out, (void)bytes, (void)module, (void)name;
  return CUDA_ERROR_NOT_FOUND;
}

ENTRY(cuModuleGetTexRef, (CUtexref * out, CUmodule module, const char* name), (out, module, name)) {
  (void)out, (void)module, (void)name;
  return CUDA_ERROR_NOT_FOUND;
}

ENTRY(cuModuleGetSurfRef, (CUsurfref * out, CUmodule module, const char* name),
      (out, module, name)) {
  (void)out, (void)module, (void)name;
  return CUDA_ERROR_NOT_FOUND;
}

ENTRY(cuModuleGetLoadingMode, (CUmoduleLoadingMode * out), (out)) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

ENTRY(cuLibraryLoadData,
      (CUlibrary * out, const void* image, CUjit_option* jit_options, void** jit_values,
       unsigned jit_count, CUlibraryOption* options, void** values, unsigned count),
      (out, image, jit_options, jit_values, jit_count, options, values, count)) {
  (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
  return Load(out, image);
}
ENTRY(cuLibraryLoadFromFile,
      (CUlibrary * out, const char* path, CUjit_option* jit_options, void** jit_values,
       unsigned jit_count, CUlibraryOption* options, void** values, unsigned count),
      (out, path, jit_options, jit_values, jit_count, options, values, count)) {
  (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
  if (path && !std::ifstream(path)) return CUDA_ERROR_FILE_NOT_FOUND;
  return Load(out, path);
}
ENTRY(cuLibraryUnload, (CUlibrary library), (library)) {
  return Unload(library);
}

ENTRY(cuLibraryGetKernel, (CUkernel * out, CUlibrary library, const char* name),
      (out, library, name)) {
  return GetFunction(out, library, name);
}

ENTRY(cuLibraryGetModule, (CUmodule * out, CUlibrary library), (out, library)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context, "cuLibraryGetModule.no_context")) return error;
  if (!out || !modules().contains(library)) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

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
