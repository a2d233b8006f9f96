// cuArrayCreate, cuMipmappedArrayCreate and their like: memory that is counted and nothing is
// copied to or from.
#include <algorithm>
#include <map>

#include "allocate.h"
#include "behaviour.h"
#include "capture.h"
#include "entry_point.h"
#include "work.h"

namespace standin {
namespace {

struct Array {
  Id context_id;
  int device;
  std::size_t bytes;
};

// By handle, of plain and of mipmapped ones. Guarded by state().mutex.
std::map<const void*, Array>& arrays() {
  static auto* const instance = new std::map<const void*, Array>;
  return *instance;
}

std::size_t ElementBytes(CUarray_format format, unsigned channels) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return std::size_t{2} * channels;
    default:
      return std::size_t{4} * channels;
  }
}

template <typename Handle>
CUresult Create(Handle* out, CUDA_ARRAY3D_DESCRIPTOR shape, unsigned levels) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  const unsigned channels = shape.NumChannels;
  if (!out || shape.Width == 0 || levels == 0 ||
      (channels != 1 && channels != 2 && channels != 4)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult error = CheckAllowedDuringCapture("cuMemAlloc")) return error;
  std::size_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) {
    bytes += std::max<std::size_t>(shape.Width >> level, 1) *
             std::max<std::size_t>(shape.Height >> level, 1) *
             std::max<std::size_t>(shape.Depth >> level, 1) * ElementBytes(shape.Format, channels);
  }
  const bool counted = (shape.Flags & CUDA_ARRAY3D_SPARSE) == 0;
  if (counted && !state().devices[static_cast<std::size_t>(context->device)]->memory.Count(bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  static std::uintptr_t last = 0x5a000000;
  *out = reinterpret_cast<Handle>(++last);
  arrays()[*out] = {context->id, context->device, counted ? bytes : 0};
  return CUDA_SUCCESS;
}

void Drop(const Array& array) {
  state().devices[static_cast<std::size_t>(array.device)]->memory.Discount(array.bytes);
}

CUresult Destroy(const void* handle) {
  const Lock lock(state().mutex);
  const auto found = arrays().find(handle);
  if (found == arrays().end()) return CUDA_ERROR_INVALID_HANDLE;
  Drop(found->second);
  arrays().erase(found);
  return CUDA_SUCCESS;
}

}  // namespace

void ReleaseArraysOf(const Context& context) {
  std::erase_if(arrays(), [&](const auto& each) {
    const bool owned = each.second.context_id == context.id;
    if (owned) Drop(each.second);
    return owned;
  });
}

}  // namespace standin

using namespace standin;

ENTRY(cuArrayCreate_v2, (CUarray * out, const CUDA_ARRAY_DESCRIPTOR* shape), (out, shape)) {
  if (!shape) return CUDA_ERROR_INVALID_VALUE;
  return Create(out, {shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0}, 1);
}

ENTRY(cuArray3DCreate_v2, (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR* shape), (out, shape)) {
  return shape ? Create(out, *shape, 1) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuArrayDestroy, (CUarray array), (array)) {
  return Destroy(array);
}

ENTRY(cuMipmappedArrayCreate,
      (CUmipmappedArray * out, const CUDA_ARRAY3D_DESCRIPTOR* shape, unsigned levels),
      (out, shape, levels)) {
  return shape ? Create(out, *shape, levels) : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuMipmappedArrayDestroy, (CUmipmappedArray array), (array)) {
  return Destroy(array);
}
