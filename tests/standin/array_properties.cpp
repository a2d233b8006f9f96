// What arrays are made of: sparse arrays, planes of images, arrays without memory of their own.
// There are none of these that could be mapped or told of, so an ordinary array has nothing to
// tell, and of another kind nothing is served.
#include "arrays.h"
#include "entry_point.h"

namespace standin {
namespace {

constexpr unsigned kDeferred = 0x80;  // CUDA_ARRAY3D_DEFERRED_MAPPING

bool IsPlanar(CUarray_format format) {
  constexpr unsigned kFirst = 0x9f;  // CU_AD_FORMAT_P010
  constexpr unsigned kLast = 0xb5;   // CU_AD_FORMAT_YUV444_16bit_SemiPlanar
  return format >= kFirst && format <= kLast;
}

// Calls `is_of_kind` with the array, and tells what a question that is of one kind answers.
template <typename IsOfKind>
CUresult AskKind(const void* out, const void* handle, bool mipmapped, IsOfKind is_of_kind) {
  const Lock lock(state().mutex);
  std::shared_ptr<Array> array;
  if (const CUresult error = FindArray(handle, mipmapped, array)) return error;
  if (!out || !is_of_kind(*array)) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_ERROR_NOT_SUPPORTED;
}

bool IsSparse(const Array& array) {
  return (array.shape.Flags & CUDA_ARRAY3D_SPARSE) != 0;
}
bool HasRequirements(const Array& array) {
  return IsSparse(array) || (array.shape.Flags & kDeferred) != 0;
}

CUresult MapArrays(const CUarrayMapInfo* list, unsigned count, CUstream handle) {
  const Lock lock(state().mutex);
  StreamPtr stream;
  if (const CUresult error = FindStream(handle, stream)) return error;
  if (!list || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    const bool mipmapped = list[i].resourceType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    const void* const named = mipmapped ? static_cast<const void*>(list[i].resource.mipmap)
                                        : static_cast<const void*>(list[i].resource.array);
    std::shared_ptr<Array> array;
    if (FindArray(named, mipmapped, array) != CUDA_SUCCESS || !IsSparse(*array)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuArrayGetSparseProperties, (CUDA_ARRAY_SPARSE_PROPERTIES * out, CUarray array),
      (out, array)) {
  return AskKind(out, array, false, IsSparse);
}

ENTRY(cuMipmappedArrayGetSparseProperties,
      (CUDA_ARRAY_SPARSE_PROPERTIES * out, CUmipmappedArray array), (out, array)) {
  return AskKind(out, array, true, IsSparse);
}

ENTRY(cuArrayGetPlane, (CUarray * out, CUarray array, unsigned plane), (out, array, plane)) {
  (void)plane;
  return AskKind(out, array, false, [](const Array& of) { return IsPlanar(of.shape.Format); });
}

#if CUDA_VERSION >= 11060
ENTRY(cuArrayGetMemoryRequirements,
      (CUDA_ARRAY_MEMORY_REQUIREMENTS * out, CUarray array, CUdevice device),
      (out, array, device)) {
  (void)device;
  return AskKind(out, array, false, HasRequirements);
}

ENTRY(cuMipmappedArrayGetMemoryRequirements,
      (CUDA_ARRAY_MEMORY_REQUIREMENTS * out, CUmipmappedArray array, CUdevice device),
      (out, array, device)) {
  (void)device;
  return AskKind(out, array, true, HasRequirements);
}
#endif

STREAM_ENTRY(cuMemMapArrayAsync, _ptsz, (CUarrayMapInfo * list, unsigned count, CUstream stream),
             (list, count, stream)) {
  return MapArrays(list, count, stream);
}
