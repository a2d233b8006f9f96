// cuArrayCreate, cuMipmappedArrayCreate and their like: the life and the shape of arrays.
#include "arrays.h"

#include <algorithm>
#include <cstdlib>

#include "allocate.h"
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "work.h"

namespace standin {
namespace {

// By handle, of plain and of mipmapped ones. Guarded by state().mutex.
Registry<const void*, Array>& arrays() {
  static auto* const instance = new Registry<const void*, Array>;
  return *instance;
}

std::size_t BytesOf(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    default:
      return 4;
  }
}

CUDA_ARRAY3D_DESCRIPTOR LevelOf(CUDA_ARRAY3D_DESCRIPTOR shape, unsigned level) {
  for (std::size_t* const side : {&shape.Width, &shape.Height}) {
    if (*side != 0) *side = std::max<std::size_t>(*side >> level, 1);
  }
  const bool layered = (shape.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  if (shape.Depth != 0 && !layered) shape.Depth = std::max<std::size_t>(shape.Depth >> level, 1);
  return shape;
}

CUresult Create(void** out, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels, bool mipmapped) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  const unsigned channels = shape.NumChannels;
  if (!out || shape.Width == 0 || levels == 0 ||
      (channels != 1 && channels != 2 && channels != 4)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult error = CheckAllowedDuringCapture("cuMemAlloc")) return error;
  const auto array = std::make_shared<Array>(
      Array{.context_id = context->id, .device = context->device, .shape = shape});
  std::size_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) {
    const Array one{.shape = LevelOf(shape, level)};
    bytes += one.pitch() * one.height() * one.depth();
  }
  const bool counted = (shape.Flags & CUDA_ARRAY3D_SPARSE) == 0;
  if (counted && !state().devices[static_cast<std::size_t>(context->device)]->memory.Count(bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  array->counted_bytes = counted ? bytes : 0;
  static std::uintptr_t last = 0x5a000000;
  *out = reinterpret_cast<void*>(++last);
  arrays()[*out] = array;
  for (unsigned level = 0; mipmapped && level < levels; ++level) {
    auto* const handle = reinterpret_cast<CUarray>(++last);
    arrays()[handle] = std::make_shared<Array>(Array{.context_id = context->id,
                                                     .device = context->device,
                                                     .shape = LevelOf(shape, level),
                                                     .mipmapped = *out});
    array->levels.push_back(handle);
  }
  return CUDA_SUCCESS;
}

void Drop(const Array& array) {
  state().devices[static_cast<std::size_t>(array.device)]->memory.Discount(array.counted_bytes);
}

CUresult Destroy(const void* handle, bool mipmapped) {
  const Lock lock(state().mutex);
  std::shared_ptr<Array> array;
  if (const CUresult error = FindArray(handle, mipmapped, array)) return error;
  if (array->mipmapped) return CUDA_ERROR_INVALID_HANDLE;  // it goes with the one that it is of
  Drop(*array);
  for (const CUarray level : array->levels) arrays().erase(level);
  arrays().erase(handle);
  return CUDA_SUCCESS;
}

}  // namespace

std::size_t Array::element_bytes() const {
  return BytesOf(shape.Format) * shape.NumChannels;
}

std::byte* Array::bytes() {
  if (!data) {
    data.reset(static_cast<std::byte*>(std::calloc(pitch() * height() * depth(), 1)), std::free);
  }
  return data.get();
}

CUresult FindArray(const void* handle, bool mipmapped, std::shared_ptr<Array>& out) {
  const auto found = arrays().find(handle);
  if (found == arrays().end() || found->second->levels.empty() == mipmapped) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  out = found->second;
  return CUDA_SUCCESS;
}

void ReleaseArraysOf(const Context& context) {
  std::erase_if(arrays(), [&](const auto& each) {
    const bool owned = each.second->context_id == context.id;
    if (owned) Drop(*each.second);
    return owned;
  });
}

}  // namespace standin

using namespace standin;

ENTRY(cuArrayCreate_v2, (CUarray * out, const CUDA_ARRAY_DESCRIPTOR* shape), (out, shape)) {
  if (!shape) return CUDA_ERROR_INVALID_VALUE;
  return Create(reinterpret_cast<void**>(out),
                {shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0}, 1, false);
}

ENTRY(cuArray3DCreate_v2, (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR* shape), (out, shape)) {
  if (!shape) return CUDA_ERROR_INVALID_VALUE;
  return Create(reinterpret_cast<void**>(out), *shape, 1, false);
}

ENTRY(cuArrayDestroy, (CUarray array), (array)) {
  return Destroy(array, false);
}

ENTRY(cuMipmappedArrayCreate,
      (CUmipmappedArray * out, const CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned levels),
      (out, shape, levels)) {
  if (!shape) return CUDA_ERROR_INVALID_VALUE;
  return Create(reinterpret_cast<void**>(out), *shape, levels, true);
}

ENTRY(cuMipmappedArrayDestroy, (CUmipmappedArray array), (array)) {
  return Destroy(array, true);
}

ENTRY(cuMipmappedArrayGetLevel, (CUarray * out, CUmipmappedArray handle, unsigned level),
      (out, handle, level)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Array> array;
  if (const CUresult error = FindArray(handle, true, array)) return error;
  if (!out || level >= array->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *out = array->levels[level];
  return CUDA_SUCCESS;
}

ENTRY(cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR * out, CUarray handle), (out, handle)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Array> array;
  if (const CUresult error = FindArray(handle, false, array)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR& shape = array->shape;
  *out = {shape.Width, shape.Height, shape.Format, shape.NumChannels};
  return CUDA_SUCCESS;
}

ENTRY(cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR * out, CUarray handle), (out, handle)) {
  const Lock lock(state().mutex);
  std::shared_ptr<Array> array;
  if (const CUresult error = FindArray(handle, false, array)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = array->shape;
  return CUDA_SUCCESS;
}
