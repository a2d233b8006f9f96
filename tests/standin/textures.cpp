// cuTexObject*, cuSurfObject*: what they were made from is kept and told. No kernel fetches from
// them here.
#include <optional>

#include "arrays.h"
#include "behaviour.h"
#include "copies.h"
#include "entry_point.h"

namespace standin {
namespace {

struct Texture {
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  std::optional<CUDA_RESOURCE_VIEW_DESC> view;
};

// By object; an object is one or the other. Guarded by state().mutex.
std::map<unsigned long long, Texture>& textures() {
  static auto* const instance = new std::map<unsigned long long, Texture>;
  return *instance;
}
std::map<unsigned long long, CUDA_RESOURCE_DESC>& surfaces() {
  static auto* const instance = new std::map<unsigned long long, CUDA_RESOURCE_DESC>;
  return *instance;
}
unsigned long long last_object = 0;

// Wants state().mutex held.
CUresult CheckResource(const CUDA_RESOURCE_DESC& resource) {
  std::shared_ptr<Array> array;
  const auto& linear = resource.res.linear;
  const auto& pitched = resource.res.pitch2D;
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      return FindArray(resource.res.array.hArray, false, array);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      return FindArray(resource.res.mipmap.hMipmappedArray, true, array);
    case CU_RESOURCE_TYPE_LINEAR:
      return IsDeviceRange(linear.devPtr, linear.sizeInBytes) ? CUDA_SUCCESS
                                                              : CUDA_ERROR_INVALID_VALUE;
    case CU_RESOURCE_TYPE_PITCH2D:
      return IsDeviceRange(pitched.devPtr, pitched.pitchInBytes * pitched.height)
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult Create(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                const CUDA_TEXTURE_DESC* texture, const CUDA_RESOURCE_VIEW_DESC* view) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out || !resource || !texture || resource->flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckResource(*resource)) return error;
  // cuda.h: a view is of arrays only.
  const bool of_array = resource->resType == CU_RESOURCE_TYPE_ARRAY ||
                        resource->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  if (view && !of_array) return CUDA_ERROR_INVALID_VALUE;
  Texture made{.resource = *resource, .texture = *texture, .view = {}};
  if (view) made.view = *view;
  *out = ++last_object;
  textures()[*out] = made;
  return CUDA_SUCCESS;
}

CUresult CreateSurface(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  // cuda.h: only of an array.
  if (!out || !resource || resource->flags != 0 || resource->resType != CU_RESOURCE_TYPE_ARRAY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult error = CheckResource(*resource)) return error;
  *out = ++last_object;
  surfaces()[*out] = *resource;
  return CUDA_SUCCESS;
}

// Calls `tell` with the texture; its answer is the result.
template <typename Tell>
CUresult Ask(CUtexObject object, const void* out, Tell tell) {
  const Lock lock(state().mutex);
  const auto found = textures().find(object);
  if (!out || found == textures().end()) return CUDA_ERROR_INVALID_VALUE;
  return tell(found->second);
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuTexObjectCreate,
      (CUtexObject * out, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* texture,
       const CUDA_RESOURCE_VIEW_DESC* view),
      (out, resource, texture, view)) {
  return Create(out, resource, texture, view);
}

ENTRY(cuTexObjectDestroy, (CUtexObject object), (object)) {
  const Lock lock(state().mutex);
  return textures().erase(object) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuTexObjectGetResourceDesc, (CUDA_RESOURCE_DESC * out, CUtexObject object), (out, object)) {
  return Ask(object, out, [&](const Texture& texture) {
    *out = texture.resource;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexObjectGetTextureDesc, (CUDA_TEXTURE_DESC * out, CUtexObject object), (out, object)) {
  return Ask(object, out, [&](const Texture& texture) {
    *out = texture.texture;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexObjectGetResourceViewDesc, (CUDA_RESOURCE_VIEW_DESC * out, CUtexObject object),
      (out, object)) {
  return Ask(object, out, [&](const Texture& texture) {
    *out = texture.view.value_or(CUDA_RESOURCE_VIEW_DESC{});  // all zero where none was given
    return CUDA_SUCCESS;
  });
}

ENTRY(cuSurfObjectCreate, (CUsurfObject * out, const CUDA_RESOURCE_DESC* resource),
      (out, resource)) {
  return CreateSurface(out, resource);
}

ENTRY(cuSurfObjectDestroy, (CUsurfObject object), (object)) {
  const Lock lock(state().mutex);
  return surfaces().erase(object) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuSurfObjectGetResourceDesc, (CUDA_RESOURCE_DESC * out, CUsurfObject object), (out, object)) {
  const Lock lock(state().mutex);
  const auto found = surfaces().find(object);
  if (!out || found == surfaces().end()) return CUDA_ERROR_INVALID_VALUE;
  *out = found->second;
  return CUDA_SUCCESS;
}
