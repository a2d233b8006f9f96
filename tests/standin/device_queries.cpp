// cuDeviceGetProperties and its like, and the notifications that no device here sends.
#include "arrays.h"
#include "behaviour.h"
#include "device_attributes.h"
#include "entry_point.h"

namespace standin {
namespace {

// Of the formats that a texture of linear memory may have; 0 of any other.
std::size_t BytesOfLinearFormat(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

CUresult CheckDevice(CUdevice ordinal) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  return FindDevice(ordinal, device);
}

CUresult WidestLinear(std::size_t* out, CUarray_format format, unsigned channels,
                      CUdevice ordinal) {
  constexpr std::size_t kMostBytes = std::size_t{4} << 30;  // as an RTX 3060 tells
  const std::size_t bytes = BytesOfLinearFormat(format) * channels;
  const bool counts = channels == 1 || channels == 2 || channels == 4;
  if (!out || bytes == 0 || !counts) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckDevice(ordinal)) return error;
  *out = kMostBytes / bytes;
  return CUDA_SUCCESS;
}

CUresult Describe(CUdevprop& out, CUdevice ordinal) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  const auto number = [&](CUdevice_attribute attribute) { return AttributeOf(*device, attribute); };
  out = {};
  out.maxThreadsPerBlock = number(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out.maxThreadsDim[0] = number(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  out.maxThreadsDim[1] = number(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y);
  out.maxThreadsDim[2] = number(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  out.maxGridSize[0] = number(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  out.maxGridSize[1] = number(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y);
  out.maxGridSize[2] = number(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  out.sharedMemPerBlock = number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  out.totalConstantMemory = number(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  out.SIMDWidth = number(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  out.memPitch = number(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  out.regsPerBlock = number(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  out.clockRate = number(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  out.textureAlign = number(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

// A callback that is registered, told by its address. Guarded by state().mutex.
std::set<void*>& registered() {
  static auto* const instance = new std::set<void*>;
  return *instance;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuDeviceGetProperties, (CUdevprop * out, CUdevice device), (out, device)) {
  return out ? Describe(*out, device) : CUDA_ERROR_INVALID_VALUE;
}

// An identifier of Windows.
ENTRY(cuDeviceGetLuid, (char* out, unsigned* nodes, CUdevice device), (out, nodes, device)) {
  if (!out || !nodes) return CUDA_ERROR_INVALID_VALUE;
  const CUresult error = CheckDevice(device);
  return error == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : error;
}

ENTRY(cuDeviceGetTexture1DLinearMaxWidth,
      (size_t * out, CUarray_format format, unsigned channels, CUdevice device),
      (out, format, channels, device)) {
  return WidestLinear(out, format, channels, device);
}

ENTRY(cuDeviceGetNvSciSyncAttributes, (void* out, CUdevice device, int flags),
      (out, device, flags)) {
  constexpr int kFlags = CUDA_NVSCISYNC_ATTR_SIGNAL | CUDA_NVSCISYNC_ATTR_WAIT;
  if (!out) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult error = CheckDevice(device)) return error;
  return flags == 0 || (flags & ~kFlags) != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
}

#if CUDA_VERSION >= 12040
ENTRY(cuDeviceRegisterAsyncNotification,
      (CUdevice ordinal, CUasyncCallback callback, void* data, CUasyncCallbackHandle* out),
      (ordinal, callback, data, out)) {
  (void)data;
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (!callback || !out) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  *out = reinterpret_cast<CUasyncCallbackHandle>(new char);
  registered().insert(*out);
  return CUDA_SUCCESS;
}

ENTRY(cuDeviceUnregisterAsyncNotification, (CUdevice ordinal, CUasyncCallbackHandle handle),
      (ordinal, handle)) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (registered().erase(handle) == 0) return CUDA_ERROR_INVALID_VALUE;
  delete reinterpret_cast<char*>(handle);
  return CUDA_SUCCESS;
}
#endif

#if CUDA_VERSION >= 13000
namespace standin {
namespace {

bool AreOperations(const CUatomicOperation* operations, unsigned count) {
  return operations && count > 0 && std::all_of(operations, operations + count, [](auto operation) {
           return operation < CU_ATOMIC_OPERATION_MAX;
         });
}

}  // namespace
}  // namespace standin

// Nothing is atomic across the bus.
ENTRY(cuDeviceGetHostAtomicCapabilities,
      (unsigned* out, const CUatomicOperation* operations, unsigned count, CUdevice device),
      (out, operations, count, device)) {
  if (!out || !AreOperations(operations, count)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckDevice(device)) return error;
  std::fill_n(out, count, 0U);
  return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetP2PAtomicCapabilities,
      (unsigned* out, const CUatomicOperation* operations, unsigned count, CUdevice from,
       CUdevice to),
      (out, operations, count, from, to)) {
  if (!out || !AreOperations(operations, count)) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult error = CheckDevice(from)) return error;
  if (const CUresult error = CheckDevice(to)) return error;
  if (from == to) return Behaviour("any.bad_device");
  std::fill_n(out, count, 0U);
  return CUDA_SUCCESS;
}
#endif
