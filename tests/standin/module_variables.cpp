// cuModuleGetGlobal, cuLibraryGetGlobal, cuLibraryGetManaged: the variables that images have, in
// device memory.
#include <algorithm>
#include <cstring>

#include "allocate.h"
#include "entry_point.h"
#include "modules.h"

namespace standin {
namespace {

const Allocation* AtPlace(const Module::Place& place) {
  const auto found = state().allocations.find(place.address);
  const bool same =
      found != state().allocations.end() && found->second.buffer_id == place.buffer_id;
  return same ? &found->second : nullptr;  // it went with its context
}

enum class Wanted { kAny, kManaged };

// What the module has of this name, or the error.
CUresult CheckIs(Wanted wanted, const Module& module, const char* name) {
  if (!module.image) return CUDA_ERROR_NOT_FOUND;
  if (wanted == Wanted::kAny) {
    return module.image->kernels.contains(name) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  const auto found = module.image->variables.find(name);
  const bool managed = found != module.image->variables.end() && found->second.is_managed;
  return managed ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult Get(CUdeviceptr* out, std::size_t* bytes_out, const void* handle, const char* name,
             Wanted wanted = Wanted::kAny) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!name || (!out && !bytes_out)) return CUDA_ERROR_INVALID_VALUE;
  Module* const module = FindModule(handle);
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult error = CheckIs(wanted, *module, name)) return error;
  if (module->context_id != 0) {  // wherever it is asked from
    for (const auto& [other, candidate] : state().contexts) {
      if (candidate->id == module->context_id) context = candidate.get();
    }
  }
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  if (const CUresult error = PlaceVariable(*module, *context, name, address, bytes)) return error;
  if (out) *out = address;
  if (bytes_out) *bytes_out = bytes;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult PlaceVariable(Module& module, Context& context, const std::string& name,
                       CUdeviceptr& address, std::size_t& bytes) {
  if (!module.image) return CUDA_ERROR_NOT_FOUND;
  const auto found = module.image->variables.find(name);
  if (found == module.image->variables.end() || found->second.bytes == 0) {
    return CUDA_ERROR_NOT_FOUND;
  }
  const Variable& variable = found->second;
  bytes = variable.bytes;
  const auto placed = module.places.find({context.id, name});
  if (placed != module.places.end() && AtPlace(placed->second)) {
    address = placed->second.address;
    return CUDA_SUCCESS;
  }
  const Allocation* const added = Allocate(context, Kind::kVariable, bytes);
  if (!added) return CUDA_ERROR_OUT_OF_MEMORY;
  address = added->base;
  auto* const start = reinterpret_cast<char*>(address);
  std::memset(start, 0, bytes);
  std::copy(variable.initial.begin(), variable.initial.end(), start);
  module.places[{context.id, name}] = {address, added->buffer_id};
  return CUDA_SUCCESS;
}

CUresult PlaceAllVariables(Module& module, Context& context) {
  if (!module.image) return CUDA_SUCCESS;
  for (const auto& [name, variable] : module.image->variables) {
    CUdeviceptr address = 0;
    std::size_t bytes = 0;
    const CUresult error = PlaceVariable(module, context, name, address, bytes);
    if (error == CUDA_ERROR_OUT_OF_MEMORY) {
      ReleaseVariables(module);
      return error;
    }
  }
  return CUDA_SUCCESS;
}

void ReleaseVariables(const Module& module) {
  for (const auto& [where, place] : module.places) {
    if (AtPlace(place)) Release(place.address);
  }
}

}  // namespace standin

using namespace standin;

ENTRY(cuModuleGetGlobal_v2, (CUdeviceptr * out, size_t* bytes, CUmodule module, const char* name),
      (out, bytes, module, name)) {
  return Get(out, bytes, module, name);
}

ENTRY(cuLibraryGetGlobal, (CUdeviceptr * out, size_t* bytes, CUlibrary library, const char* name),
      (out, bytes, library, name)) {
  return Get(out, bytes, library, name);
}

ENTRY(cuLibraryGetManaged, (CUdeviceptr * out, size_t* bytes, CUlibrary library, const char* name),
      (out, bytes, library, name)) {
  return Get(out, bytes, library, name, Wanted::kManaged);
}

// CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS is 0: no library has any.
ENTRY(cuLibraryGetUnifiedFunction, (void** out, CUlibrary library, const char* name),
      (out, library, name)) {
  (void)out, (void)name;
  const Lock lock(state().mutex);
  return FindModule(library) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}
