// NVML, as far as PyTorch, pynvml, nvitop and cubfc's tests ask: how many devices there are and how
// large, how much of each is in use by all processes, which process uses them, that none has links
// or a fabric. Status 0 is NVML_SUCCESS, 2 _INVALID_ARGUMENT, 3 _NOT_SUPPORTED, 6 _NOT_FOUND, 25
// _ARGUMENT_VERSION_MISMATCH.
//
// NVML_ORDER=reversed counts the devices the other way round from CUDA, as NVML may; NVML_MIG=1
// makes each an instance of a GPU, NVML_LIMITS=refused keeps its limits to itself, NVML_LARGER=MIB
// makes it larger than CUDA says, as on some cards.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "library.h"

using namespace standin_library;

namespace {

// The driver's, past whoever hooks its functions.
template <typename Function>
Function of_driver(const char* name) {
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver ? reinterpret_cast<Function>(dlsym(driver, name)) : nullptr;
}

bool is(const char* variable, const char* value) {
  const char* const set = std::getenv(variable);
  return set && std::strcmp(set, value) == 0;
}

int count_devices() {
  static const auto count = of_driver<int (*)(int*)>("cuDeviceGetCount");
  int devices = 0;
  return count && count(&devices) == 0 ? devices : 0;
}

// A handle is the device's number and one, so that it is never null.
int number_of(const void* device) {
  const int number = static_cast<int>(reinterpret_cast<std::uintptr_t>(device)) - 1;
  return number >= 0 && number < count_devices() ? number : -1;
}
void* handle_of(int number) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(number) + 1);
}

int write_text(char* out, unsigned room, const std::string& text) {
  if (!out) return 2;
  if (text.size() >= room) return 7;  // NVML_ERROR_INSUFFICIENT_SIZE
  std::memcpy(out, text.c_str(), text.size() + 1);
  return 0;
}

std::string uuid_of(int number) {
  static const auto uuid = of_driver<int (*)(unsigned char*, int)>("cuDeviceGetUuid_v2");
  std::array<unsigned char, 16> bytes{};
  if (!uuid || uuid(bytes.data(), number) != 0) return {};
  std::string text = is("NVML_MIG", "1") ? "MIG-" : "GPU-";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += (i == 4 || i == 6 || i == 8 || i == 10) ? std::string("-") + digits : digits;
  }
  return text;
}

std::string address_of(int number) {
  static const auto address = of_driver<int (*)(char*, int, int)>("cuDeviceGetPCIBusId");
  char text[32] = "";
  if (address) address(text, sizeof text, number);
  return std::string("0000") + text;  // NVML writes the domain with eight digits
}

// What the device has, and what all processes use. An integrated GPU has no memory of its own to
// tell of, as a DGX Spark (nvitop#208).
int look_at_memory(const void* device, std::uint64_t& total, std::uint64_t& used) {
  static const auto attribute = of_driver<int (*)(int*, int, int)>("cuDeviceGetAttribute");
  static const auto memory =
      of_driver<int (*)(int, std::uint64_t*, std::uint64_t*)>("standin_device_memory");
  constexpr int kIntegrated = 18;  // CU_DEVICE_ATTRIBUTE_INTEGRATED
  const int number = number_of(device);
  int integrated = 0;
  if (number < 0 || !attribute || !memory || attribute(&integrated, kIntegrated, number)) return 2;
  if (integrated != 0) return 3;
  if (memory(number, &total, &used) != 1) return 2;
  if (const char* const more = std::getenv("NVML_LARGER"))
    total += std::strtoull(more, nullptr, 10) << 20;
  return 0;
}

}  // namespace

STANDIN_EXPORT int nvmlInit_v2() {
  static const auto init = of_driver<int (*)(unsigned)>("cuInit");
  return init && init(0) == 0 ? 0 : 9;  // NVML_ERROR_DRIVER_NOT_LOADED
}
STANDIN_EXPORT int nvmlInit() {
  return nvmlInit_v2();
}
STANDIN_EXPORT int nvmlInitWithFlags(unsigned) {
  return nvmlInit_v2();
}
STANDIN_EXPORT int nvmlShutdown() {
  return 0;
}
STANDIN_EXPORT const char* nvmlErrorString(int status) {
  return status == 0 ? "Success" : "Not Supported";
}

STANDIN_EXPORT int nvmlSystemGetDriverVersion(char* out, unsigned room) {
  return write_text(out, room, "580.159.04");
}
STANDIN_EXPORT int nvmlSystemGetNVMLVersion(char* out, unsigned room) {
  return write_text(out, room, "13.580.159.04");
}
STANDIN_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* out) {
  static const auto version = of_driver<int (*)(int*)>("cuDriverGetVersion");
  return version && out && version(out) == 0 ? 0 : 2;
}
STANDIN_EXPORT int nvmlSystemGetCudaDriverVersion(int* out) {
  return nvmlSystemGetCudaDriverVersion_v2(out);
}

STANDIN_EXPORT int nvmlDeviceGetCount_v2(unsigned* out) {
  if (!out) return 2;
  *out = static_cast<unsigned>(count_devices());
  return 0;
}
STANDIN_EXPORT int nvmlDeviceGetCount(unsigned* out) {
  return nvmlDeviceGetCount_v2(out);
}

STANDIN_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** out) {
  const auto count = static_cast<unsigned>(count_devices());
  if (!out || index >= count) return 2;
  *out = handle_of(static_cast<int>(is("NVML_ORDER", "reversed") ? count - 1 - index : index));
  return 0;
}
STANDIN_EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, void** out) {
  return nvmlDeviceGetHandleByIndex_v2(index, out);
}
STANDIN_EXPORT int nvmlDeviceGetIndex(const void* device, unsigned* out) {
  const int number = number_of(device);
  if (number < 0 || !out) return 2;
  *out =
      static_cast<unsigned>(is("NVML_ORDER", "reversed") ? count_devices() - 1 - number : number);
  return 0;
}

STANDIN_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** out) {
  static const auto find = of_driver<int (*)(int*, const char*)>("cuDeviceGetByPCIBusId");
  int device = 0;
  if (!id || !out || !find || find(&device, id) != 0) return 6;
  *out = handle_of(device);
  return 0;
}
STANDIN_EXPORT int nvmlDeviceGetHandleByUUID(const char* id, void** out) {
  if (!id || !out) return 2;
  for (int number = 0; number < count_devices(); ++number) {
    if (uuid_of(number) != id) continue;
    *out = handle_of(number);
    return 0;
  }
  return 6;
}

STANDIN_EXPORT int nvmlDeviceGetName(const void* device, char* out, unsigned room) {
  static const auto name = of_driver<int (*)(char*, int, int)>("cuDeviceGetName");
  char text[96] = "";
  const int number = number_of(device);
  if (number < 0 || !name || name(text, sizeof text, number) != 0) return 2;
  return write_text(out, room, text);
}
STANDIN_EXPORT int nvmlDeviceGetUUID(const void* device, char* out, unsigned room) {
  const int number = number_of(device);
  return number < 0 ? 2 : write_text(out, room, uuid_of(number));
}
// nvmlPciInfo_t: the old form of the address, domain, bus, device, two ids, the address.
STANDIN_EXPORT int nvmlDeviceGetPciInfo_v3(const void* device, void* out) {
  struct Info {
    char old_address[16];
    unsigned domain, bus, device, ids, subsystem;
    char address[32];
  };
  const int number = number_of(device);
  if (number < 0 || !out) return 2;
  auto& info = *static_cast<Info*>(out);
  info = {};
  const std::string address = address_of(number);
  std::snprintf(info.old_address, sizeof info.old_address, "%s", address.c_str() + 4);
  std::snprintf(info.address, sizeof info.address, "%s", address.c_str());
  std::sscanf(address.c_str(), "%x:%x:%x", &info.domain, &info.bus, &info.device);
  return 0;
}

STANDIN_EXPORT int nvmlDeviceGetMigMode(const void*, unsigned*, unsigned*) {
  return 3;
}
STANDIN_EXPORT int nvmlDeviceIsMigDeviceHandle(const void* device, unsigned* out) {
  if (number_of(device) < 0 || !out) return 2;
  *out = is("NVML_MIG", "1") ? 1 : 0;
  return 0;
}

STANDIN_EXPORT int nvmlDeviceGetMemoryInfo(const void* device, std::uint64_t* out) {
  std::uint64_t total = 0;
  std::uint64_t used = 0;
  if (!out) return 2;
  if (const int error = look_at_memory(device, total, used)) return error;
  out[0] = total;
  out[1] = total - used;
  out[2] = used;
  return 0;
}
// As the real one: a part that is the system's is in neither of the others.
STANDIN_EXPORT int nvmlDeviceGetMemoryInfo_v2(const void* device, void* out) {
  struct Memory {
    unsigned version;
    std::uint64_t total, reserved, free, used;
  };
  constexpr std::uint64_t kReserved = 16 << 20;
  std::uint64_t total = 0;
  std::uint64_t used = 0;
  if (!out) return 2;
  auto& memory = *static_cast<Memory*>(out);
  if (memory.version != (sizeof(Memory) | 2U << 24U)) return 25;
  if (const int error = look_at_memory(device, total, used)) return error;
  const std::uint64_t reserved = kReserved < total - used ? kReserved : 0;
  memory = {memory.version, total, reserved, total - used - reserved, used};
  return 0;
}

// Of drivers from 615 on.
STANDIN_EXPORT int nvmlDeviceGetMemoryLimits_v1(const void* device, void* out) {
  static const auto limit = of_driver<std::uint64_t (*)(int)>("standin_device_limit");
  struct Limits {
    const char* name_space;
    std::uint64_t soft, hard, used;
  };
  const int number = number_of(device);
  auto* const limits = static_cast<Limits*>(out);
  // nvml.h: the full path of the cgroup's folder.
  const bool is_path =
      limits && limits->name_space && std::strncmp(limits->name_space, "/sys/fs/cgroup", 14) == 0;
  if (number < 0 || !is_path || !limit) return 2;
  if (is("NVML_LIMITS", "refused")) return 4;  // NVML_ERROR_NO_PERMISSION
  std::uint64_t total = 0;
  look_at_memory(device, total, limits->used);
  limits->hard = limit(number);
  limits->soft = limits->hard / 2;
  return 0;
}

// What this one knows nothing of; whatever its arguments.
#define STANDIN_NOT_SUPPORTED(name) \
  STANDIN_EXPORT int name(...) {    \
    return 3;                       \
  }
STANDIN_NOT_SUPPORTED(nvmlDeviceGetBAR1MemoryInfo)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetClockInfo)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetComputeMode)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetCudaComputeCapability)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetDecoderUtilization)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetDriverModel)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetDisplayActive)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetDisplayMode)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetEncoderUtilization)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetFanSpeed)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetGpuFabricInfoV)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetMaxMigDeviceCount)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetPcieThroughput)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetPerformanceState)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetPersistenceMode)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetPowerManagementLimit)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetPowerUsage)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetProcessUtilization)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetTemperature)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetTemperatureV)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetTotalEccErrors)
STANDIN_NOT_SUPPORTED(nvmlDeviceGetUtilizationRates)

STANDIN_EXPORT int nvmlDeviceGetComputeRunningProcesses(const void* device, unsigned* count,
                                                        void* processes) {
  (void)processes;
  if (number_of(device) < 0 || !count) return 2;
  *count = 0;
  return 0;
}
STANDIN_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(const void* device, unsigned* count,
                                                           void* processes) {
  return nvmlDeviceGetComputeRunningProcesses(device, count, processes);
}
STANDIN_EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(const void* device, unsigned* count,
                                                            void* processes) {
  return nvmlDeviceGetComputeRunningProcesses(device, count, processes);
}
