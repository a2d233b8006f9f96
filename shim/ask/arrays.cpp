#include "shim/ask/arrays.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "shim/device/contexts.h"
#include "shim/serve/driver_requests.h"
#include "shim/tell/log.h"

namespace cubfc {
namespace {

// Bits of one element, all channels. An element of a format that is not listed may have fewer.
std::uint64_t bits_of(CUarray_format format, std::uint64_t channels) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X4:
      return 8 * channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X4:
      return 16 * channels;
    case CU_AD_FORMAT_NV12:  // 8 bits of luma, and 4 of chroma
      return 12;
    case CU_AD_FORMAT_BC1_UNORM:  // 8 bytes for 16 elements
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM:
      return 4;
    case CU_AD_FORMAT_BC2_UNORM:  // 16 bytes for 16 elements
    case CU_AD_FORMAT_BC2_UNORM_SRGB:
    case CU_AD_FORMAT_BC3_UNORM:
    case CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM:
    case CU_AD_FORMAT_BC5_SNORM:
    case CU_AD_FORMAT_BC6H_UF16:
    case CU_AD_FORMAT_BC6H_SF16:
    case CU_AD_FORMAT_BC7_UNORM:
    case CU_AD_FORMAT_BC7_UNORM_SRGB:
      return 8;
    default:
      return 32 * channels;
  }
}

// Whether arrays of this format must have 1, 2 or 4 channels (cuda.h, cuArrayCreate).
bool has_plain_channels(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned levels) {
  constexpr unsigned kWithoutMemory = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;
  if ((shape.Flags & kWithoutMemory) != 0) {
    return 0;  // the program maps physical memory to it
  }
  if (has_plain_channels(shape.Format) && shape.NumChannels != 1 && shape.NumChannels != 2 &&
      shape.NumChannels != 4) {
    return 0;  // there is no such array: the driver refuses it
  }
  constexpr unsigned kLayers = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP;
  std::uint64_t width = shape.Width;
  std::uint64_t height = std::max<std::uint64_t>(shape.Height, 1);
  std::uint64_t depth = std::max<std::uint64_t>(shape.Depth, 1);
  std::uint64_t elements = 0;
  for (unsigned level = 0; level < std::max(levels, 1U) && level < 64; ++level) {
    unsigned __int128 more = width;
    more = more * height * depth;
    if (more > (std::uint64_t{1} << 50)) {
      return std::uint64_t{1} << 55;  // more than any device has
    }
    elements += static_cast<std::uint64_t>(more);
    if (width == 1 && height == 1 && (depth == 1 || (shape.Flags & kLayers) != 0)) {
      break;
    }
    width = std::max<std::uint64_t>(width / 2, 1);
    height = std::max<std::uint64_t>(height / 2, 1);
    depth = (shape.Flags & kLayers) != 0 ? depth : std::max<std::uint64_t>(depth / 2, 1);
  }
  return (elements * bits_of(shape.Format, std::max(shape.NumChannels, 1U)) + 7) / 8;
}

Arrays::Arrays(const DriverFunctions& driver, Contexts& contexts, DriverRequests& requests)
    : driver_(driver), contexts_(contexts), requests_(requests) {
  contexts.add_listener(*this);
}

template <typename Array, typename Create>
CUresult Arrays::create(Array* array, std::uint64_t bytes, const char* function, Create create) {
  Context* const context = array == nullptr || bytes == 0 ? nullptr : contexts_.current();
  if (context == nullptr) {
    return create();
  }
  std::optional<Claim> claim;
  const CUresult result = requests_.claim_and_call(
      {context->device, Memory::kArray, bytes, function}, claim, create, [] {});
  if (result != CUDA_SUCCESS) {
    return result;
  }
  try {
    ledger_.add(*array, {std::move(*claim), context->id});
  } catch (const std::bad_alloc&) {  // no host memory: the array is not counted
  }
  log::trace("{} of about {} bytes", function, bytes);
  return CUDA_SUCCESS;
}

template <typename Array>
CUresult Arrays::destroy(CUresult (*function)(Array), Array array) {
  auto entry = ledger_.remove(array);
  const CUresult result = function(array);
  if (result != CUDA_SUCCESS && entry) {
    ledger_.put_back(array, std::move(*entry));
  }
  return result;
}

CUresult Arrays::create(CUarray* array, const CUDA_ARRAY_DESCRIPTOR* shape) {
  const std::uint64_t bytes =
      shape == nullptr
          ? 0
          : array_bytes({shape->Width, shape->Height, 0, shape->Format, shape->NumChannels, 0}, 1);
  return create(array, bytes, "cuArrayCreate",
                [&] { return driver_.cuArrayCreate_v2(array, shape); });
}

CUresult Arrays::create_3d(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  return create(array, shape == nullptr ? 0 : array_bytes(*shape, 1), "cuArray3DCreate",
                [&] { return driver_.cuArray3DCreate_v2(array, shape); });
}

CUresult Arrays::create_mipmapped(CUmipmappedArray* array, const CUDA_ARRAY3D_DESCRIPTOR* shape,
                                  unsigned levels) {
  return create(array, shape == nullptr ? 0 : array_bytes(*shape, levels), "cuMipmappedArrayCreate",
                [&] { return driver_.cuMipmappedArrayCreate(array, shape, levels); });
}

CUresult Arrays::destroy(CUarray array) {
  return destroy(driver_.cuArrayDestroy, array);
}

CUresult Arrays::destroy_mipmapped(CUmipmappedArray array) {
  return destroy(driver_.cuMipmappedArrayDestroy, array);
}

}  // namespace cubfc
