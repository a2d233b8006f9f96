// cuModule*, cuLibrary*: what is loaded, and the functions that it has. A module whose image cannot
// be read has every function that it is asked for.
#include "modules.h"

#include <fstream>
#include <iterator>
#include <vector>

#include "behaviour.h"
#include "entry_point.h"
#include "settings.h"

namespace standin {
namespace {

// Guarded by state().mutex.
Registry<const void*, Module>& modules() {
  static auto* const instance = new Registry<const void*, Module>;
  return *instance;
}

Registry<const void*, Function>& functions() {
  static auto* const instance = new Registry<const void*, Function>;
  return *instance;
}

// The image is read without the lock: compiling takes long.
CUresult Read(const void* start, const JitOptions& options, std::shared_ptr<Module>& out,
              std::string& log) {
  if (!start) return CUDA_ERROR_INVALID_VALUE;
  CUresult error = CUDA_SUCCESS;
  out = std::make_shared<Module>();
  out->image = ReadImage(start, options, error, log);
  out->architecture = ArchitectureIn(start, settings().capability);
  return error;
}

// The options of a load, and where they ask for the compiler's logs.
struct Options {
  unsigned count = 0;
  CUjit_option* options = nullptr;
  void** values = nullptr;
};

CUresult Read(const void* start, const Options& options, std::shared_ptr<Module>& out) {
  std::string log;
  const JitOptions changing = JitOptions::Of(options.count, options.options, options.values);
  const CUresult result = Read(start, changing, out, log);
  WriteJitLogs(options.count, options.options, options.values, log);
  return result;
}

CUresult LoadLibrary(CUlibrary* out, const void* image, const Options& options) {
  std::shared_ptr<Module> library;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = Read(image, options, library)) return error;
  const Lock lock(state().mutex);
  *out = reinterpret_cast<CUlibrary>(library.get());
  modules()[*out] = std::move(library);
  return CUDA_SUCCESS;
}

CUresult LoadModule(CUmodule* out, const void* image, const Options& options) {
  Context* context = nullptr;
  {
    const Lock lock(state().mutex);
    if (const CUresult error = CurrentContext(context)) return error;
  }
  std::shared_ptr<Module> module;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = Read(image, options, module)) return error;
  const Lock lock(state().mutex);
  if (const CUresult error = CurrentContext(context)) return error;  // it may be gone meanwhile
  module->context_id = context->id;
  module->device = context->device;
  if (const CUresult error = PlaceAllVariables(*module, *context)) return error;
  *out = reinterpret_cast<CUmodule>(module.get());
  modules()[*out] = std::move(module);
  return CUDA_SUCCESS;
}

// The whole file, and a NUL behind it.
CUresult ReadFile(const char* path, std::string& out) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  out.assign(std::istreambuf_iterator<char>(file), {});
  return CUDA_SUCCESS;
}

CUresult Unload(const void* handle) {
  const Lock lock(state().mutex);
  const auto found = modules().find(handle);
  if (found == modules().end()) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, function] : found->second->functions) {
    functions().erase(function.get());
    functions().erase(&function->as_kernel);
  }
  ReleaseVariables(*found->second);
  modules().erase(found);
  return CUDA_SUCCESS;
}

// A name's function, made when it is first asked for.
template <typename Handle>
CUresult GetFunction(Handle* out, const void* handle, const char* name) {
  const Lock lock(state().mutex);
  Module* const module = FindModule(handle);
  if (!out || !name || !module) return CUDA_ERROR_INVALID_VALUE;
  if (!*name || (module->image && !module->image->kernels.contains(name))) {
    return Behaviour("cuModuleGetFunction.not_found");
  }
  std::shared_ptr<Function>& function = module->functions[name];
  if (!function) {
    function = std::make_shared<Function>(Function{.name = name,
                                                   .module = handle,
                                                   .kernel = FindKernel(name),
                                                   .is_read = module->image.has_value(),
                                                   .architecture = module->architecture,
                                                   .needs = {.registers = 32}});
    if (module->image) function->needs = module->image->kernels.find(name)->second;
    functions()[function.get()] = function;
    functions()[&function->as_kernel] = function;
  }
  void* const handles[] = {function.get(), &function->as_kernel};
  *out = static_cast<Handle>(handles[std::is_same_v<Handle, CUkernel> ? 1 : 0]);
  return CUDA_SUCCESS;
}

// Of an image that could not be read nobody knows.
CUresult Count(unsigned* out, const void* handle) {
  const Lock lock(state().mutex);
  const Module* const module = FindModule(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!module->image) return CUDA_ERROR_NOT_SUPPORTED;
  *out = static_cast<unsigned>(module->image->kernels.size());
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult Enumerate(Handle* out, unsigned most, const void* handle) {
  std::vector<std::string> names;
  {
    const Lock lock(state().mutex);
    const Module* const module = FindModule(handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (!module->image) return CUDA_ERROR_NOT_SUPPORTED;
    for (const auto& [name, needs] : module->image->kernels) names.push_back(name);
  }
  for (std::size_t i = 0; i < names.size() && i < most; ++i) {
    if (const CUresult error = GetFunction(&out[i], handle, names[i].c_str())) return error;
  }
  return CUDA_SUCCESS;
}

}  // namespace

Module* FindModule(const void* handle) {
  const auto found = modules().find(handle);
  return found == modules().end() ? nullptr : found->second.get();
}

CUresult FindFunction(const void* handle, const Function*& out) {
  Function* found = nullptr;
  const CUresult error = FindFunction(handle, found);
  out = found;
  return error;
}

CUresult FindFunction(const void* handle, Function*& out) {
  const auto found = functions().find(handle);
  if (found == functions().end()) return CUDA_ERROR_INVALID_HANDLE;
  out = found->second.get();
  return CUDA_SUCCESS;
}

}  // namespace standin

using namespace standin;

ENTRY(cuModuleLoadData, (CUmodule * out, const void* image), (out, image)) {
  return LoadModule(out, image, {});
}
ENTRY(cuModuleLoad, (CUmodule * out, const char* path), (out, path)) {
  std::string image;
  if (const CUresult error = ReadFile(path, image)) return error;
  return LoadModule(out, image.c_str(), {});
}
ENTRY(cuModuleLoadFatBinary, (CUmodule * out, const void* image), (out, image)) {
  return LoadModule(out, image, {});
}
ENTRY(cuModuleLoadDataEx,
      (CUmodule * out, const void* image, unsigned count, CUjit_option* options, void** values),
      (out, image, count, options, values)) {
  return LoadModule(out, image, {count, options, values});
}
ENTRY(cuModuleUnload, (CUmodule module), (module)) {
  return Unload(module);
}

ENTRY(cuModuleGetFunction, (CUfunction * out, CUmodule module, const char* name),
      (out, module, name)) {
  return GetFunction(out, module, name);
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
  (void)options, (void)values, (void)count;
  return LoadLibrary(out, image, {jit_count, jit_options, jit_values});
}
ENTRY(cuLibraryLoadFromFile,
      (CUlibrary * out, const char* path, CUjit_option* jit_options, void** jit_values,
       unsigned jit_count, CUlibraryOption* options, void** values, unsigned count),
      (out, path, jit_options, jit_values, jit_count, options, values, count)) {
  (void)options, (void)values, (void)count;
  std::string image;
  if (const CUresult error = ReadFile(path, image)) return error;
  return LoadLibrary(out, image.c_str(), {jit_count, jit_options, jit_values});
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
  if (!out || !FindModule(library)) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12040
ENTRY(cuModuleGetFunctionCount, (unsigned* out, CUmodule module), (out, module)) {
  return module ? Count(out, module) : CUDA_ERROR_INVALID_VALUE;
}
ENTRY(cuModuleEnumerateFunctions, (CUfunction * out, unsigned most, CUmodule module),
      (out, most, module)) {
  return module ? Enumerate(out, most, module) : CUDA_ERROR_INVALID_VALUE;
}
ENTRY(cuLibraryGetKernelCount, (unsigned* out, CUlibrary library), (out, library)) {
  return Count(out, library);
}
ENTRY(cuLibraryEnumerateKernels, (CUkernel * out, unsigned most, CUlibrary library),
      (out, most, library)) {
  return Enumerate(out, most, library);
}
#endif
