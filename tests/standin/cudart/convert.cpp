#include "convert.h"

#include <initializer_list>

using namespace cudart;

namespace {

struct Side {
  CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
  CUdeviceptr device = 0;
  CUarray array = nullptr;
  std::size_t element = 1;
  std::size_t x_in_bytes = 0;
};

// Which of the two a side is, and the size of its elements: exactly one of them must be given.
cudaError_t ToSide(const Driver& driver, cudaArray_t array, const cudaPos& position,
                   const cudaPitchedPtr& pointer, Side& out) {
  if ((array == nullptr) == (pointer.ptr == nullptr)) return cudaErrorInvalidValue;
  if (array) {
    std::size_t row = 0;
    out.type = CU_MEMORYTYPE_ARRAY;
    out.array = Array(array);
    if (const cudaError_t error = Measure(driver, out.array, out.element, row)) return error;
  } else {
    out.device = Device(pointer.ptr);
  }
  out.x_in_bytes = position.x * out.element;
  return cudaSuccess;
}

// What both kinds of copies have.
template <typename Copy, typename Box>
cudaError_t ToAnyBox(const Driver& driver, const Copy& copy, Box& out) {
  Side from;
  Side to;
  if (const cudaError_t error = ToSide(driver, copy.srcArray, copy.srcPos, copy.srcPtr, from)) {
    return error;
  }
  if (const cudaError_t error = ToSide(driver, copy.dstArray, copy.dstPos, copy.dstPtr, to)) {
    return error;
  }
  if (from.array && to.array && from.element != to.element) return cudaErrorInvalidValue;
  out = {};
  out.srcMemoryType = from.type;
  out.srcDevice = from.device;
  out.srcArray = from.array;
  out.srcXInBytes = from.x_in_bytes;
  out.srcY = copy.srcPos.y;
  out.srcZ = copy.srcPos.z;
  out.srcPitch = copy.srcPtr.pitch;
  out.srcHeight = copy.srcPtr.ysize;
  out.dstMemoryType = to.type;
  out.dstDevice = to.device;
  out.dstArray = to.array;
  out.dstXInBytes = to.x_in_bytes;
  out.dstY = copy.dstPos.y;
  out.dstZ = copy.dstPos.z;
  out.dstPitch = copy.dstPtr.pitch;
  out.dstHeight = copy.dstPtr.ysize;
  out.WidthInBytes = copy.extent.width * (from.array ? from.element : to.element);
  out.Height = copy.extent.height;
  out.Depth = copy.extent.depth;
  return cudaSuccess;
}

}  // namespace

namespace cudart {

CUmemLocation Location(const cudaMemLocation& location) {
  CUmemLocation result{};
  result.type = static_cast<CUmemLocationType>(location.type);
  result.id = location.id;
  return result;
}

CUmemPoolProps PoolProperties(const cudaMemPoolProps& properties) {
  CUmemPoolProps result{};
  result.allocType = static_cast<CUmemAllocationType>(properties.allocType);
  result.handleTypes = static_cast<CUmemAllocationHandleType>(properties.handleTypes);
  result.location = Location(properties.location);
  result.win32SecurityAttributes = properties.win32SecurityAttributes;
  result.maxSize = properties.maxSize;
  result.usage = properties.usage;
  return result;
}

cudaError_t ToFormat(const cudaChannelFormatDesc& description, Format& out) {
  const int bits[] = {description.x, description.y, description.z, description.w};
  unsigned channels = 0;
  while (channels < 4 && bits[channels] != 0) {
    if (bits[channels] != bits[0]) return cudaErrorInvalidChannelDescriptor;
    ++channels;
  }
  for (unsigned i = channels; i < 4; ++i) {
    if (bits[i] != 0) return cudaErrorInvalidChannelDescriptor;
  }
  if (channels == 0 || channels == 3) return cudaErrorInvalidChannelDescriptor;
  struct Known {
    cudaChannelFormatKind kind;
    int bits;
    CUarray_format format;
  };
  constexpr Known kKnown[] = {
      {cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8},
      {cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16},
      {cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32},
      {cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8},
      {cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16},
      {cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32},
      {cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF},
      {cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT},
  };
  for (const Known& known : kKnown) {
    if (known.kind != description.f || known.bits != bits[0]) continue;
    out = {known.format, channels};
    return cudaSuccess;
  }
  return cudaErrorInvalidChannelDescriptor;
}

cudaError_t Measure(const Driver& driver, CUarray array, std::size_t& element, std::size_t& row) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  if (const CUresult error = driver.cuArray3DGetDescriptor_v2(&shape, array)) {
    return ToRuntime(error);
  }
  const cudaChannelFormatDesc one = ToDescription(shape.Format, 1);
  if (one.x == 0) return cudaErrorInvalidChannelDescriptor;  // the driver's own, and no plain one
  element = static_cast<std::size_t>(one.x) / 8 * shape.NumChannels;
  row = element * shape.Width;
  return cudaSuccess;
}

cudaChannelFormatDesc ToDescription(CUarray_format format, unsigned channels) {
  int bits = 0;
  cudaChannelFormatKind kind = cudaChannelFormatKindNone;
  for (const cudaChannelFormatKind each :
       {cudaChannelFormatKindSigned, cudaChannelFormatKindUnsigned, cudaChannelFormatKindFloat}) {
    for (const int size : {8, 16, 32}) {
      Format found{};
      if (ToFormat({size, 0, 0, 0, each}, found) != cudaSuccess || found.format != format) continue;
      bits = size;
      kind = each;
    }
  }
  return {bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 3 ? bits : 0, kind};
}

cudaError_t ToBox(const Driver& driver, const cudaMemcpy3DParms& copy, CUDA_MEMCPY3D& out) {
  if (!IsKind(copy.kind)) return cudaErrorInvalidMemcpyDirection;
  return ToAnyBox(driver, copy, out);
}

cudaError_t ToBox(const Driver& driver, const cudaMemcpy3DPeerParms& copy,
                  CUDA_MEMCPY3D_PEER& out) {
  if (const cudaError_t error = ToAnyBox(driver, copy, out)) return error;
  if (const cudaError_t error = PrimaryContext(driver, copy.srcDevice, &out.srcContext)) {
    return error;
  }
  return PrimaryContext(driver, copy.dstDevice, &out.dstContext);
}

cudaError_t FromBox(const Driver& driver, const CUDA_MEMCPY3D& box, cudaMemcpy3DParms& out) {
  std::size_t from = 1;
  std::size_t to = 1;
  std::size_t row = 0;
  if (box.srcMemoryType == CU_MEMORYTYPE_ARRAY) {
    if (const cudaError_t error = Measure(driver, box.srcArray, from, row)) return error;
  }
  if (box.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    if (const cudaError_t error = Measure(driver, box.dstArray, to, row)) return error;
  }
  const auto pointer = [&](CUmemorytype type, const void* host, CUdeviceptr device,
                           std::size_t pitch, std::size_t height) {
    if (type == CU_MEMORYTYPE_ARRAY) return cudaPitchedPtr{};
    void* const at = type == CU_MEMORYTYPE_HOST ? const_cast<void*>(host) : Pointer(device);
    return cudaPitchedPtr{at, pitch, box.WidthInBytes, height};
  };
  out = {};
  if (box.srcMemoryType == CU_MEMORYTYPE_ARRAY) {
    out.srcArray = reinterpret_cast<cudaArray_t>(box.srcArray);
  }
  if (box.dstMemoryType == CU_MEMORYTYPE_ARRAY) {
    out.dstArray = reinterpret_cast<cudaArray_t>(box.dstArray);
  }
  out.srcPtr = pointer(box.srcMemoryType, box.srcHost, box.srcDevice, box.srcPitch, box.srcHeight);
  out.dstPtr = pointer(box.dstMemoryType, box.dstHost, box.dstDevice, box.dstPitch, box.dstHeight);
  out.srcPos = {box.srcXInBytes / from, box.srcY, box.srcZ};
  out.dstPos = {box.dstXInBytes / to, box.dstY, box.dstZ};
  out.extent = {box.WidthInBytes / (out.srcArray ? from : to), box.Height, box.Depth};
  out.kind = cudaMemcpyDefault;
  return cudaSuccess;
}

CUDA_MEMCPY3D Row(void* to, const void* from, std::size_t bytes) {
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  box.srcDevice = Device(from);
  box.srcPitch = bytes;
  box.srcHeight = 1;
  box.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  box.dstDevice = Device(to);
  box.dstPitch = bytes;
  box.dstHeight = 1;
  box.WidthInBytes = bytes;
  box.Height = 1;
  box.Depth = 1;
  return box;
}

}  // namespace cudart
