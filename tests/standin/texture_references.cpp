// cuTexRef*, cuSurfRef*: the deprecated textures. What is set can be asked for again.
#include <algorithm>
#include <array>

#include "arrays.h"
#include "behaviour.h"
#include "copies.h"
#include "entry_point.h"

namespace standin {
namespace {

struct Reference {
  CUarray array = nullptr;
  CUmipmappedArray mipmapped = nullptr;
  CUdeviceptr address = 0;
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  int channels = 1;
  std::array<CUaddress_mode, 3> modes{};
  CUfilter_mode filter = CU_TR_FILTER_MODE_POINT;
  CUfilter_mode level_filter = CU_TR_FILTER_MODE_POINT;
  float level_bias = 0;
  float least_level = 0;
  float most_level = 0;
  unsigned anisotropy = 0;
  std::array<float, 4> border{};
  unsigned flags = 0;
};

// Guarded by state().mutex.
Registry<CUtexref, Reference>& references() {
  static auto* const instance = new Registry<CUtexref, Reference>;
  return *instance;
}

// Calls `work` with the reference.
template <typename Work>
CUresult With(CUtexref handle, Work work) {
  const Lock lock(state().mutex);
  const auto found = references().find(handle);
  if (found == references().end()) return CUDA_ERROR_INVALID_HANDLE;
  return work(*found->second);
}

template <typename Value>
CUresult Set(CUtexref handle, Value Reference::*member, Value value) {
  return With(handle, [&](Reference& reference) {
    reference.*member = value;
    return CUDA_SUCCESS;
  });
}

CUresult SetMode(CUtexref handle, CUfilter_mode Reference::*member, CUfilter_mode mode) {
  return With(handle, [&](Reference& reference) {
    if (mode > CU_TR_FILTER_MODE_LINEAR) return CUDA_ERROR_INVALID_VALUE;
    reference.*member = mode;
    return CUDA_SUCCESS;
  });
}

template <typename Value, typename Out>
CUresult Get(CUtexref handle, Value Reference::*member, Out* out) {
  return With(handle, [&](const Reference& reference) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = static_cast<Out>(reference.*member);
    return CUDA_SUCCESS;
  });
}

// What a reference is bound to is one thing.
void Bind(Reference& to, CUarray array, CUmipmappedArray mipmapped, CUdeviceptr address) {
  to.array = array;
  to.mipmapped = mipmapped;
  to.address = address;
}

// Of something that may not be bound.
template <typename Value>
CUresult GetBound(CUtexref handle, Value Reference::*member, Value* out) {
  return With(handle, [&](const Reference& reference) {
    if (!out || !(reference.*member)) return CUDA_ERROR_INVALID_VALUE;
    *out = reference.*member;
    return CUDA_SUCCESS;
  });
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuTexRefCreate, (CUtexref * out), (out)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = AddTo(references(), std::make_shared<Reference>());
  return CUDA_SUCCESS;
}

ENTRY(cuTexRefDestroy, (CUtexref handle), (handle)) {
  const Lock lock(state().mutex);
  return references().erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

ENTRY(cuTexRefSetArray, (CUtexref handle, CUarray array, unsigned flags), (handle, array, flags)) {
  return With(handle, [&](Reference& reference) {
    std::shared_ptr<Array> found;
    if (flags != CU_TRSA_OVERRIDE_FORMAT) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = FindArray(array, false, found)) return error;
    Bind(reference, array, nullptr, 0);
    reference.format = found->shape.Format;
    reference.channels = static_cast<int>(found->shape.NumChannels);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexRefSetMipmappedArray, (CUtexref handle, CUmipmappedArray array, unsigned flags),
      (handle, array, flags)) {
  return With(handle, [&](Reference& reference) {
    std::shared_ptr<Array> found;
    if (flags != CU_TRSA_OVERRIDE_FORMAT) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult error = FindArray(array, true, found)) return error;
    Bind(reference, nullptr, array, 0);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexRefSetAddress_v2, (size_t * offset, CUtexref handle, CUdeviceptr address, size_t bytes),
      (offset, handle, address, bytes)) {
  return With(handle, [&](Reference& reference) {
    if (!IsDeviceRange(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (offset) *offset = 0;
    Bind(reference, nullptr, nullptr, address);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexRefSetAddress2D_v3,
      (CUtexref handle, const CUDA_ARRAY_DESCRIPTOR* shape, CUdeviceptr address, size_t pitch),
      (handle, shape, address, pitch)) {
  return With(handle, [&](Reference& reference) {
    if (!shape || !IsDeviceRange(address, pitch * shape->Height)) return CUDA_ERROR_INVALID_VALUE;
    Bind(reference, nullptr, nullptr, address);
    reference.format = shape->Format;
    reference.channels = static_cast<int>(shape->NumChannels);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexRefSetFormat, (CUtexref handle, CUarray_format format, int channels),
      (handle, format, channels)) {
  return With(handle, [&](Reference& reference) {
    reference.format = format;
    reference.channels = channels;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexRefGetFormat, (CUarray_format * format, int* channels, CUtexref handle),
      (format, channels, handle)) {
  return With(handle, [&](const Reference& reference) {
    if (format) *format = reference.format;
    if (channels) *channels = reference.channels;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexRefSetAddressMode, (CUtexref handle, int dimension, CUaddress_mode mode),
      (handle, dimension, mode)) {
  return With(handle, [&](Reference& reference) {
    if (dimension < 0 || dimension > 2) return CUDA_ERROR_INVALID_VALUE;
    reference.modes[static_cast<std::size_t>(dimension)] = mode;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexRefGetAddressMode, (CUaddress_mode * out, CUtexref handle, int dimension),
      (out, handle, dimension)) {
  return With(handle, [&](const Reference& reference) {
    if (!out || dimension < 0 || dimension > 2) return CUDA_ERROR_INVALID_VALUE;
    *out = reference.modes[static_cast<std::size_t>(dimension)];
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexRefSetFilterMode, (CUtexref handle, CUfilter_mode mode), (handle, mode)) {
  return SetMode(handle, &Reference::filter, mode);
}
ENTRY(cuTexRefGetFilterMode, (CUfilter_mode * out, CUtexref handle), (out, handle)) {
  return Get(handle, &Reference::filter, out);
}

ENTRY(cuTexRefSetMipmapFilterMode, (CUtexref handle, CUfilter_mode mode), (handle, mode)) {
  return SetMode(handle, &Reference::level_filter, mode);
}
ENTRY(cuTexRefGetMipmapFilterMode, (CUfilter_mode * out, CUtexref handle), (out, handle)) {
  return Get(handle, &Reference::level_filter, out);
}

ENTRY(cuTexRefSetMipmapLevelBias, (CUtexref handle, float bias), (handle, bias)) {
  return Set(handle, &Reference::level_bias, bias);
}
ENTRY(cuTexRefGetMipmapLevelBias, (float* out, CUtexref handle), (out, handle)) {
  return Get(handle, &Reference::level_bias, out);
}

ENTRY(cuTexRefSetMipmapLevelClamp, (CUtexref handle, float least, float most),
      (handle, least, most)) {
  return With(handle, [&](Reference& reference) {
    reference.least_level = least;
    reference.most_level = most;
    return CUDA_SUCCESS;
  });
}
ENTRY(cuTexRefGetMipmapLevelClamp, (float* least, float* most, CUtexref handle),
      (least, most, handle)) {
  return With(handle, [&](const Reference& reference) {
    if (!least || !most) return CUDA_ERROR_INVALID_VALUE;
    *least = reference.least_level;
    *most = reference.most_level;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexRefSetMaxAnisotropy, (CUtexref handle, unsigned most), (handle, most)) {
  return Set(handle, &Reference::anisotropy, most);
}
ENTRY(cuTexRefGetMaxAnisotropy, (int* out, CUtexref handle), (out, handle)) {
  return Get(handle, &Reference::anisotropy, out);
}

ENTRY(cuTexRefSetBorderColor, (CUtexref handle, float* color), (handle, color)) {
  return With(handle, [&](Reference& reference) {
    if (!color) return CUDA_ERROR_INVALID_VALUE;
    std::copy_n(color, 4, reference.border.begin());
    return CUDA_SUCCESS;
  });
}
ENTRY(cuTexRefGetBorderColor, (float* color, CUtexref handle), (color, handle)) {
  return With(handle, [&](const Reference& reference) {
    if (!color) return CUDA_ERROR_INVALID_VALUE;
    std::copy_n(reference.border.begin(), 4, color);
    return CUDA_SUCCESS;
  });
}

ENTRY(cuTexRefSetFlags, (CUtexref handle, unsigned flags), (handle, flags)) {
  return Set(handle, &Reference::flags, flags);
}
ENTRY(cuTexRefGetFlags, (unsigned* out, CUtexref handle), (out, handle)) {
  return Get(handle, &Reference::flags, out);
}

ENTRY(cuTexRefGetArray, (CUarray * out, CUtexref handle), (out, handle)) {
  return GetBound(handle, &Reference::array, out);
}
ENTRY(cuTexRefGetMipmappedArray, (CUmipmappedArray * out, CUtexref handle), (out, handle)) {
  return GetBound(handle, &Reference::mipmapped, out);
}
ENTRY(cuTexRefGetAddress_v2, (CUdeviceptr * out, CUtexref handle), (out, handle)) {
  return GetBound(handle, &Reference::address, out);
}

// Only modules have surface references, and none is found there.
ENTRY(cuSurfRefSetArray, (CUsurfref handle, CUarray array, unsigned flags),
      (handle, array, flags)) {
  (void)handle, (void)array, (void)flags;
  return CUDA_ERROR_INVALID_HANDLE;
}
ENTRY(cuSurfRefGetArray, (CUarray * out, CUsurfref handle), (out, handle)) {
  (void)out, (void)handle;
  return CUDA_ERROR_INVALID_HANDLE;
}
