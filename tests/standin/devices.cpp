// cuInit, cuDevice*, cuDriverGetVersion and the names of errors.
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "behaviour.h"
#include "entry_point.h"
#include "injection.h"
#include "settings.h"
#include "state.h"
#include "visible_devices.h"
#include "work.h"

namespace standin {
namespace {

struct ErrorText {
  CUresult error;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
#define STANDIN_ERROR(name, text) {name, #name, text},
#include "errors.inc"
#undef STANDIN_ERROR
};

const ErrorText* Find(CUresult error) {
  for (const ErrorText& entry : kErrors) {
    if (entry.error == error) return &entry;
  }
  return nullptr;
}

// What of the device attributes a program may steer by; the numbers are those of an H100.
int Attribute(CUdevice_attribute attribute, const Device& device) {
  // CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, which headers before CUDA 12.8 do not have.
  constexpr int kDecompression = 136;
  if (static_cast<int>(attribute) == kDecompression) return settings().decompression;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return settings().capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      return settings().capability % 10;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 232448;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 233472;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return settings().multiprocessors;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return settings().threads;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1980000;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
      return 2619000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
      return 5120;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
      return 512;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      return 32;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      return device.number + 1;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      return settings().integrated;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      return 3;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
      return 1;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
      return settings().maps ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      return settings().has_pools ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      return settings().has_pools ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
    default:
      return 0;
  }
}

// Checks the device; then `write` fills the output.
template <typename Write>
CUresult Describe(CUdevice ordinal, const void* output, Write write) {
  const Lock lock(state().mutex);
  Device* device = nullptr;
  if (const CUresult error = FindDevice(ordinal, device)) return error;
  if (!output) return CUDA_ERROR_INVALID_VALUE;
  write(*device);
  return CUDA_SUCCESS;
}

CUresult Initialize() {
  const Lock lock(state().mutex);
  if (IsInitialized()) return CUDA_SUCCESS;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<int> numbers(static_cast<std::size_t>(settings().devices));
  std::iota(numbers.begin(), numbers.end(), 0);
  if (visible) numbers = VisibleDevices(visible, settings().devices);
  if (numbers.empty()) return Behaviour("cuInit.no_device");
  state().usage = settings().shared.empty() ? PrivateUsage() : SharedUsage(settings().shared);
  for (const int number : numbers) {
    state().devices.push_back(std::make_unique<Device>(number, *state().usage));
  }
  state().work_delay = settings().work_delay;
  MarkInitialized();
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

EARLY_ENTRY(cuInit, (unsigned flags), (flags)) {
  if (flags != 0) return Behaviour("cuInit.bad_flags");
  const CUresult result = Initialize();
  if (result == CUDA_SUCCESS) LoadInjection();
  return result;
}

EARLY_ENTRY(cuDriverGetVersion, (int* out), (out)) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = settings().driver_version;
  return CUDA_SUCCESS;
}

EARLY_ENTRY(cuGetErrorName, (CUresult error, const char** out), (error, out)) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* const found = Find(error);
  *out = found ? found->name : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EARLY_ENTRY(cuGetErrorString, (CUresult error, const char** out), (error, out)) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const ErrorText* const found = Find(error);
  *out = found ? found->text : nullptr;
  return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

ENTRY(cuDeviceGetCount, (int* out), (out)) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(state().mutex);
  *out = static_cast<int>(state().devices.size());
  return CUDA_SUCCESS;
}

ENTRY(cuDeviceGet, (CUdevice * out, int ordinal), (out, ordinal)) {
  return Describe(ordinal, out, [&](Device&) { *out = ordinal; });
}

ENTRY(cuDeviceGetName, (char* out, int length, CUdevice device), (out, length, device)) {
  if (length <= 0) return CUDA_ERROR_INVALID_VALUE;
  return Describe(device, out, [&](Device&) {
    std::snprintf(out, static_cast<std::size_t>(length), "standin software GPU");
  });
}

ENTRY(cuDeviceGetUuid, (CUuuid * out, CUdevice device), (out, device)) {
  return Describe(device, out, [&](Device& found) { *out = UuidOf(found.number); });
}

ENTRY(cuDeviceGetUuid_v2, (CUuuid * out, CUdevice device), (out, device)) {
  return Describe(device, out, [&](Device& found) { *out = UuidOf(found.number); });
}

ENTRY(cuDeviceTotalMem, (unsigned* out, CUdevice device), (out, device)) {
  (void)out, (void)device;
  return Behaviour("any.legacy_32_bit_form");
}

ENTRY(cuDeviceTotalMem_v2, (size_t * out, CUdevice device), (out, device)) {
  return Describe(device, out, [&](Device& found) {
    const std::size_t withheld = settings().withheld_of(found.number);
    const bool lower = withheld > 0 && BehaviourFlag("driver_limit.lowers_total");
    *out = found.memory.total() - (lower ? withheld : 0);
  });
}

ENTRY(cuDeviceGetAttribute, (int* out, CUdevice_attribute attribute, CUdevice device),
      (out, attribute, device)) {
  if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  return Describe(device, out, [&](Device& found) { *out = Attribute(attribute, found); });
}

ENTRY(cuDeviceComputeCapability, (int* major, int* minor, CUdevice device),
      (major, minor, device)) {
  return Describe(device, major && minor ? major : nullptr, [&](Device& found) {
    *major = Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, found);
    *minor = Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, found);
  });
}

ENTRY(cuDeviceGetPCIBusId, (char* out, int length, CUdevice device), (out, length, device)) {
  if (length < 13) return CUDA_ERROR_INVALID_VALUE;
  return Describe(device, out, [&](Device& found) {
    std::snprintf(out, static_cast<std::size_t>(length), "0000:%02x:00.0", found.number + 1);
  });
}

ENTRY(cuDeviceGetByPCIBusId, (CUdevice * out, const char* id), (out, id)) {
  unsigned domain = 0;
  unsigned bus = 0;
  if (!out || !id || std::sscanf(id, "%x:%x", &domain, &bus) != 2) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(state().mutex);
  for (std::size_t i = 0; i < state().devices.size(); ++i) {
    if (static_cast<unsigned>(state().devices[i]->number) + 1 != bus) continue;
    *out = static_cast<int>(i);
    return CUDA_SUCCESS;
  }
  return Behaviour("any.bad_device");
}

ENTRY(cuDeviceCanAccessPeer, (int* out, CUdevice device, CUdevice peer), (out, device, peer)) {
  Device* found = nullptr;
  if (const CUresult error = FindDevice(peer, found)) return error;
  return Describe(device, out, [&](Device&) { *out = ArePeers(device, peer) ? 1 : 0; });
}

ENTRY(cuDeviceGetP2PAttribute,
      (int* out, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer),
      (out, attribute, device, peer)) {
  Device* found = nullptr;
  if (const CUresult error = FindDevice(peer, found)) return error;
  if (device == peer) return Behaviour("any.bad_device");
  return Describe(device, out, [&](Device&) {
    const bool asked = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    *out = asked && ArePeers(device, peer) ? 1 : 0;
  });
}

// A part of a device's multiprocessors is had by green contexts only.
ENTRY(cuDeviceGetExecAffinitySupport, (int* out, CUexecAffinityType type, CUdevice device),
      (out, type, device)) {
  if (type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) return CUDA_ERROR_INVALID_VALUE;
  return Describe(device, out, [&](Device&) { *out = 0; });
}
