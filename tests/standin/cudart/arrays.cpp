// cudaMallocArray and its like, and what arrays are bound to: cudaTextureObject_t,
// cudaSurfaceObject_t.
#include <cstring>

#include "convert.h"
#include "forward.h"

using namespace cudart;

namespace {

cudaError_t Shape(const cudaChannelFormatDesc* description, cudaExtent extent, unsigned flags,
                  CUDA_ARRAY3D_DESCRIPTOR& out) {
  if (!description) return cudaErrorInvalidValue;
  Format format{};
  if (const cudaError_t error = ToFormat(*description, format)) return error;
  // The flags of both have the same numbers.
  out = {extent.width, extent.height, extent.depth, format.format, format.channels, flags};
  return cudaSuccess;
}

cudaError_t MakeArray(cudaArray_t* out, const cudaChannelFormatDesc* description, cudaExtent extent,
                      unsigned flags) {
  return WithContext([&](const Driver& driver) {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    if (const cudaError_t error = Shape(description, extent, flags, shape)) return error;
    return ToRuntime(driver.cuArray3DCreate_v2(reinterpret_cast<CUarray*>(out), &shape));
  });
}

cudaError_t ToResource(const cudaResourceDesc& from, CUDA_RESOURCE_DESC& out) {
  out = {};
  out.resType = static_cast<CUresourcetype>(from.resType);
#if CUDART_VERSION >= 13000
  out.flags = from.flags;
#endif
  Format format{};
  switch (from.resType) {
    case cudaResourceTypeArray:
      out.res.array.hArray = Array(from.res.array.array);
      return cudaSuccess;
    case cudaResourceTypeMipmappedArray:
      out.res.mipmap.hMipmappedArray = reinterpret_cast<CUmipmappedArray>(from.res.mipmap.mipmap);
      return cudaSuccess;
    case cudaResourceTypeLinear:
      if (const cudaError_t error = ToFormat(from.res.linear.desc, format)) return error;
      out.res.linear = {Device(from.res.linear.devPtr), format.format, format.channels,
                        from.res.linear.sizeInBytes};
      return cudaSuccess;
    case cudaResourceTypePitch2D: {
      const auto& pitched = from.res.pitch2D;
      if (const cudaError_t error = ToFormat(pitched.desc, format)) return error;
      out.res.pitch2D = {Device(pitched.devPtr), format.format,  format.channels,
                         pitched.width,          pitched.height, pitched.pitchInBytes};
      return cudaSuccess;
    }
    default:
      return cudaErrorInvalidValue;
  }
}

void FromResource(const CUDA_RESOURCE_DESC& from, cudaResourceDesc& out) {
  out = {};
  out.resType = static_cast<cudaResourceType>(from.resType);
  switch (from.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      out.res.array.array = reinterpret_cast<cudaArray_t>(from.res.array.hArray);
      break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      out.res.mipmap.mipmap =
          reinterpret_cast<cudaMipmappedArray_t>(from.res.mipmap.hMipmappedArray);
      break;
    case CU_RESOURCE_TYPE_LINEAR:
      out.res.linear.devPtr = Pointer(from.res.linear.devPtr);
      out.res.linear.desc = ToDescription(from.res.linear.format, from.res.linear.numChannels);
      out.res.linear.sizeInBytes = from.res.linear.sizeInBytes;
      break;
    default:
      out.res.pitch2D.devPtr = Pointer(from.res.pitch2D.devPtr);
      out.res.pitch2D.desc = ToDescription(from.res.pitch2D.format, from.res.pitch2D.numChannels);
      out.res.pitch2D.width = from.res.pitch2D.width;
      out.res.pitch2D.height = from.res.pitch2D.height;
      out.res.pitch2D.pitchInBytes = from.res.pitch2D.pitchInBytes;
  }
}

// Members of both by the same names.
template <typename From, typename To>
void SameMembers(const From& from, To& to) {
  for (int i = 0; i < 3; ++i) {
    to.addressMode[i] = static_cast<std::decay_t<decltype(to.addressMode[i])>>(from.addressMode[i]);
  }
  to.filterMode = static_cast<decltype(to.filterMode)>(from.filterMode);
  for (int i = 0; i < 4; ++i) to.borderColor[i] = from.borderColor[i];
  to.maxAnisotropy = from.maxAnisotropy;
  to.mipmapFilterMode = static_cast<decltype(to.mipmapFilterMode)>(from.mipmapFilterMode);
  to.mipmapLevelBias = from.mipmapLevelBias;
  to.minMipmapLevelClamp = from.minMipmapLevelClamp;
  to.maxMipmapLevelClamp = from.maxMipmapLevelClamp;
}

// What is a member of the runtime's and a flag of the driver's: whether the flag says so, or the
// opposite.
template <typename Tell>
void ForEachFlag(Tell tell) {
  tell(&cudaTextureDesc::sRGB, unsigned{CU_TRSF_SRGB});
  tell(&cudaTextureDesc::normalizedCoords, unsigned{CU_TRSF_NORMALIZED_COORDINATES});
  tell(&cudaTextureDesc::disableTrilinearOptimization,
       unsigned{CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION});
  tell(&cudaTextureDesc::seamlessCubemap, unsigned{CU_TRSF_SEAMLESS_CUBEMAP});
}

CUDA_TEXTURE_DESC ToTexture(const cudaTextureDesc& from) {
  CUDA_TEXTURE_DESC out{};
  SameMembers(from, out);
  if (from.readMode == cudaReadModeElementType) out.flags |= CU_TRSF_READ_AS_INTEGER;
  ForEachFlag([&](int cudaTextureDesc::*member, unsigned flag) {
    if (from.*member) out.flags |= flag;
  });
  return out;
}

cudaTextureDesc FromTexture(const CUDA_TEXTURE_DESC& from) {
  cudaTextureDesc out{};
  SameMembers(from, out);
  out.readMode = (from.flags & CU_TRSF_READ_AS_INTEGER) != 0 ? cudaReadModeElementType
                                                             : cudaReadModeNormalizedFloat;
  ForEachFlag([&](int cudaTextureDesc::*member, unsigned flag) {
    out.*member = (from.flags & flag) != 0 ? 1 : 0;
  });
  return out;
}

// Before CUDA 13 the runtime's description of a view ends earlier than the driver's.
static_assert(sizeof(cudaResourceViewDesc) <= sizeof(CUDA_RESOURCE_VIEW_DESC));

}  // namespace

CUDART_API cudaMallocArray(cudaArray_t* out, const cudaChannelFormatDesc* description, size_t width,
                           size_t height, unsigned flags) {
  return MakeArray(out, description, {width, height, 0}, flags);
}

CUDART_API cudaMalloc3DArray(cudaArray_t* out, const cudaChannelFormatDesc* description,
                             cudaExtent extent, unsigned flags) {
  return MakeArray(out, description, extent, flags);
}

CUDART_API cudaFreeArray(cudaArray_t array) {
  return WithContext([&](const Driver& driver) {
    return array ? driver.cuArrayDestroy(Array(array)) : CUDA_SUCCESS;
  });
}

CUDART_API cudaMallocMipmappedArray(cudaMipmappedArray_t* out,
                                    const cudaChannelFormatDesc* description, cudaExtent extent,
                                    unsigned levels, unsigned flags) {
  return WithContext([&](const Driver& driver) {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    if (const cudaError_t error = Shape(description, extent, flags, shape)) return error;
    return ToRuntime(
        driver.cuMipmappedArrayCreate(reinterpret_cast<CUmipmappedArray*>(out), &shape, levels));
  });
}

CUDART_API cudaFreeMipmappedArray(cudaMipmappedArray_t array) {
  return WithContext([&](const Driver& driver) {
    return array ? driver.cuMipmappedArrayDestroy(reinterpret_cast<CUmipmappedArray>(array))
                 : CUDA_SUCCESS;
  });
}

#if CUDART_VERSION >= 13000
CUDART_API cudaExternalMemoryGetMappedMipmappedArray(
    cudaMipmappedArray_t* out, cudaExternalMemory_t memory,
    const cudaExternalMemoryMipmappedArrayDesc* asked) {
  return WithContext([&](const Driver& driver) {
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC of{};
    if (!asked) return cudaErrorInvalidValue;
    of.offset = asked->offset;
    of.numLevels = asked->numLevels;
    if (const cudaError_t error =
            Shape(&asked->formatDesc, asked->extent, asked->flags, of.arrayDesc)) {
      return error;
    }
    return Ask(driver.cuExternalMemoryGetMappedMipmappedArray, out, memory, &of);
  });
}
#endif

CUDART_API cudaArrayGetInfo(cudaChannelFormatDesc* description, cudaExtent* extent, unsigned* flags,
                            cudaArray_t array) {
  return WithContext([&](const Driver& driver) {
    CUDA_ARRAY3D_DESCRIPTOR shape{};
    if (const CUresult error = driver.cuArray3DGetDescriptor_v2(&shape, Array(array))) return error;
    if (description) *description = ToDescription(shape.Format, shape.NumChannels);
    if (extent) *extent = {shape.Width, shape.Height, shape.Depth};
    if (flags) *flags = shape.Flags;
    return CUDA_SUCCESS;
  });
}

CUDART_API cudaGetChannelDesc(cudaChannelFormatDesc* out, cudaArray_const_t array) {
  if (!out) return Remember(cudaErrorInvalidValue);
  return cudaArrayGetInfo(out, nullptr, nullptr, const_cast<cudaArray_t>(array));
}

extern "C" cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                       cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

CUDART_API cudaCreateTextureObject(cudaTextureObject_t* out, const cudaResourceDesc* resource,
                                   const cudaTextureDesc* texture,
                                   const cudaResourceViewDesc* view) {
  return WithContext([&](const Driver& driver) {
    if (!resource || !texture) return cudaErrorInvalidValue;
    CUDA_RESOURCE_DESC of{};
    if (const cudaError_t error = ToResource(*resource, of)) return error;
    const CUDA_TEXTURE_DESC how = ToTexture(*texture);
    CUDA_RESOURCE_VIEW_DESC as{};
    if (view) std::memcpy(&as, view, sizeof(*view));
    return ToRuntime(driver.cuTexObjectCreate(out, &of, &how, view ? &as : nullptr));
  });
}

CUDART_API cudaGetTextureObjectResourceDesc(cudaResourceDesc* out, cudaTextureObject_t object) {
  return WithContext([&](const Driver& driver) {
    CUDA_RESOURCE_DESC found{};
    const CUresult error =
        out ? driver.cuTexObjectGetResourceDesc(&found, object) : CUDA_ERROR_INVALID_VALUE;
    if (error == CUDA_SUCCESS) FromResource(found, *out);
    return error;
  });
}

CUDART_API cudaGetTextureObjectTextureDesc(cudaTextureDesc* out, cudaTextureObject_t object) {
  return WithContext([&](const Driver& driver) {
    CUDA_TEXTURE_DESC found{};
    const CUresult error =
        out ? driver.cuTexObjectGetTextureDesc(&found, object) : CUDA_ERROR_INVALID_VALUE;
    if (error == CUDA_SUCCESS) *out = FromTexture(found);
    return error;
  });
}

CUDART_API cudaGetTextureObjectResourceViewDesc(cudaResourceViewDesc* out,
                                                cudaTextureObject_t object) {
  return WithContext([&](const Driver& driver) {
    CUDA_RESOURCE_VIEW_DESC found{};
    const CUresult error =
        out ? driver.cuTexObjectGetResourceViewDesc(&found, object) : CUDA_ERROR_INVALID_VALUE;
    if (error == CUDA_SUCCESS) std::memcpy(out, &found, sizeof(*out));
    return error;
  });
}

CUDART_API cudaCreateSurfaceObject(cudaSurfaceObject_t* out, const cudaResourceDesc* resource) {
  return WithContext([&](const Driver& driver) {
    if (!resource) return cudaErrorInvalidValue;
    CUDA_RESOURCE_DESC of{};
    if (const cudaError_t error = ToResource(*resource, of)) return error;
    return ToRuntime(driver.cuSurfObjectCreate(out, &of));
  });
}

CUDART_API cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* out, cudaSurfaceObject_t object) {
  return WithContext([&](const Driver& driver) {
    CUDA_RESOURCE_DESC found{};
    const CUresult error =
        out ? driver.cuSurfObjectGetResourceDesc(&found, object) : CUDA_ERROR_INVALID_VALUE;
    if (error == CUDA_SUCCESS) FromResource(found, *out);
    return error;
  });
}

CUDART_FORWARD(3, cudaGetMipmappedArrayLevel, cuMipmappedArrayGetLevel)
CUDART_FORWARD(3, cudaArrayGetPlane, cuArrayGetPlane)
CUDART_FORWARD(3, cudaArrayGetMemoryRequirements, cuArrayGetMemoryRequirements)
CUDART_FORWARD(3, cudaMipmappedArrayGetMemoryRequirements, cuMipmappedArrayGetMemoryRequirements)
CUDART_FORWARD(2, cudaArrayGetSparseProperties, cuArrayGetSparseProperties)
CUDART_FORWARD(2, cudaMipmappedArrayGetSparseProperties, cuMipmappedArrayGetSparseProperties)
CUDART_FORWARD(1, cudaDestroyTextureObject, cuTexObjectDestroy)
CUDART_FORWARD(1, cudaDestroySurfaceObject, cuSurfObjectDestroy)
