// cuInit, cuDevice*, cuDriverGetVersion and the names of errors.
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "behaviour.h"
#include "device_attributes.h"
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

struct PciAddress {
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned device = 0;
  unsigned function = 0;
  bool operator==(const PciAddress&) const = default;
};

PciAddress AddressOf(const Device& device) {
  return {.bus = static_cast<unsigned>(device.number) + 1};
}

// [domain:]bus:device[.function], in hexadecimal, and nothing behind it.
bool Parse(const char* text, PciAddress& out) {
  const auto whole = [&](const char* format, auto*... parts) {
    int read = 0;
    const int found = std::sscanf(text, format, parts..., &read);
    return found == static_cast<int>(sizeof...(parts)) && read > 0 && text[read] == 0;
  };
  out = {};
  if (whole("%x:%x:%x.%x%n", &out.domain, &out.bus, &out.device, &out.function)) return true;
  out = {};
  if (whole("%x:%x:%x%n", &out.domain, &out.bus, &out.device)) return true;
  out = {};
  if (whole("%x:%x.%x%n", &out.bus, &out.device, &out.function)) return true;
  out = {};
  return whole("%x:%x%n", &out.bus, &out.device);
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
    std::snprintf(out, static_cast<std::size_t>(length), "%s", settings().name.c_str());
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
  return Describe(device, out, [&](Device& found) { *out = AttributeOf(found, attribute); });
}

ENTRY(cuDeviceComputeCapability, (int* major, int* minor, CUdevice device),
      (major, minor, device)) {
  return Describe(device, major && minor ? major : nullptr, [&](Device& found) {
    *major = AttributeOf(found, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = AttributeOf(found, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  });
}

ENTRY(cuDeviceGetPCIBusId, (char* out, int length, CUdevice device), (out, length, device)) {
  if (length < 13) return CUDA_ERROR_INVALID_VALUE;
  return Describe(device, out, [&](Device& found) {
    const PciAddress address = AddressOf(found);
    std::snprintf(out, static_cast<std::size_t>(length), "%04x:%02x:%02x.%x", address.domain,
                  address.bus, address.device, address.function);
  });
}

ENTRY(cuDeviceGetByPCIBusId, (CUdevice * out, const char* id), (out, id)) {
  PciAddress wanted;
  if (!out || !id || !Parse(id, wanted)) return CUDA_ERROR_INVALID_VALUE;
  const Lock lock(state().mutex);
  for (std::size_t i = 0; i < state().devices.size(); ++i) {
    if (AddressOf(*state().devices[i]) != wanted) continue;
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
  constexpr int kLast = 5;  // ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED, which older headers lack
  if (attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK || attribute > kLast) {
    return CUDA_ERROR_INVALID_VALUE;
  }
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
