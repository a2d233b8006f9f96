// cuArrayCreate, cuMipmappedArrayCreate and their like: the life and the shape of arrays.
#include "arrays.h"

#include <algorithm>
#include <bit>
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

// Handles are counted up, so that those of destroyed arrays are told from what never was one.
constexpr std::uintptr_t kBeforeFirst = 0x5a000000;
std::uintptr_t last_array = kBeforeFirst;

void* NewArrayHandle() {
  return reinterpret_cast<void*>(++last_array);
}

bool WasArray(const void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  return kBeforeFirst < number && number <= last_array && !arrays().contains(handle);
}

CUDA_ARRAY3D_DESCRIPTOR LevelOf(CUDA_ARRAY3D_DESCRIPTOR shape, unsigned level) {
  for (std::size_t* const side : {&shape.Width, &shape.Height}) {
    if (*side != 0) *side = std::max<std::size_t>(*side >> level, 1);
  }
  const bool layered = (shape.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  if (shape.Depth != 0 && !layered) shape.Depth = std::max<std::size_t>(shape.Depth >> level, 1);
  return shape;
}

// The numbers of CUarray_format, of which later headers have more: the first and the last of each
// row.
bool IsFormat(unsigned format) {
  constexpr std::pair<unsigned, unsigned> kFormats[] = {{0x01, 0x03}, {0x08, 0x0a}, {0x10, 0x10},
                                                        {0x20, 0x20}, {0x50, 0x50}, {0x91, 0x9f},
                                                        {0xa1, 0xa9}, {0xb0, 0xb5}, {0xc0, 0xcb}};
  return std::any_of(std::begin(kFormats), std::end(kFormats),
                     [&](const auto& row) { return row.first <= format && format <= row.second; });
}

// cuda.h, cuArray3DCreate: what each kind of array is made of.
bool IsRight(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  constexpr unsigned kFlags = 0x1ff;  // CUDA_ARRAY3D_LAYERED to CUDA_ARRAY3D_VIDEO_ENCODE_DECODE
  const bool layered = (shape.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  const bool cube = (shape.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
  const unsigned channels = shape.NumChannels;
  const bool elements = (channels == 1 || channels == 2 || channels == 4) &&
                        IsFormat(static_cast<unsigned>(shape.Format));
  const bool extents =
      shape.Width != 0 && (layered ? shape.Depth != 0 : shape.Depth == 0 || shape.Height != 0);
  const bool faces =
      shape.Width == shape.Height && (layered ? shape.Depth % 6 == 0 : shape.Depth == 6);
  return elements && extents && (!cube || faces) && (shape.Flags & ~kFlags) == 0;
}

// As many as are asked for, but one at least, and none that is smaller than an element.
unsigned LevelsOf(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned asked) {
  const bool layered = (shape.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  const std::size_t longest =
      std::max({shape.Width, shape.Height, layered ? std::size_t{0} : shape.Depth});
  return std::clamp(asked, 1U, static_cast<unsigned>(std::bit_width(longest)));
}

CUresult Create(void** out, const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned asked, bool mipmapped) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out || !IsRight(shape)) return CUDA_ERROR_INVALID_VALUE;
  const unsigned levels = LevelsOf(shape, asked);
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
  *out = NewArrayHandle();
  arrays()[*out] = array;
  for (unsigned level = 0; mipmapped && level < levels; ++level) {
    auto* const handle = static_cast<CUarray>(NewArrayHandle());
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
  if (array->mipmapped) return CUDA_SUCCESS;  // it stays, and goes with the one that it is of
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
  if (WasArray(handle)) return Behaviour("any.destroyed_array");
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
