// NVML, as far as PyTorch asks: how many devices there are and how large, which process uses them,
// that none has links or a fabric. Status 0 is NVML_SUCCESS, 2 _INVALID_ARGUMENT, 3 _NOT_SUPPORTED,
// 6 _NOT_FOUND.
#include <cstdio>
#include <cstring>

#include "library.h"

using namespace standin_library;

STANDIN_EXPORT int nvmlInit_v2() {
  static const auto init = reinterpret_cast<int (*)(unsigned)>(driver_function("cuInit"));
  return init && init(0) == 0 ? 0 : 9;  // NVML_ERROR_DRIVER_NOT_LOADED
}
STANDIN_EXPORT int nvmlInit() {
  return nvmlInit_v2();
}
STANDIN_EXPORT int nvmlShutdown() {
  return 0;
}
STANDIN_EXPORT const char* nvmlErrorString(int status) {
  return status == 0 ? "Success" : "Not Supported";
}

STANDIN_EXPORT int nvmlSystemGetCudaDriverVersion_v2(int* out) {
  static const auto version =
      reinterpret_cast<int (*)(int*)>(driver_function("cuDriverGetVersion"));
  return version && out && version(out) == 0 ? 0 : 2;
}

STANDIN_EXPORT int nvmlDeviceGetCount_v2(unsigned* out) {
  static const auto count = reinterpret_cast<int (*)(int*)>(driver_function("cuDeviceGetCount"));
  int devices = 0;
  if (!out || !count || count(&devices) != 0) return 2;
  *out = static_cast<unsigned>(devices);
  return 0;
}

// A handle is the device's number and one, so that it is never null.
STANDIN_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** out) {
  unsigned count = 0;
  if (!out || nvmlDeviceGetCount_v2(&count) != 0 || index >= count) return 2;
  *out = reinterpret_cast<void*>(std::uintptr_t{index} + 1);
  return 0;
}

STANDIN_EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** out) {
  static const auto find =
      reinterpret_cast<int (*)(int*, const char*)>(driver_function("cuDeviceGetByPCIBusId"));
  int device = 0;
  if (!id || !out || !find || find(&device, id) != 0) return 6;
  return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(device), out);
}

// An integrated GPU has no memory of its own to tell of, as a DGX Spark (nvitop#208). What there is
// of another's the driver tells who has a context.
STANDIN_EXPORT int nvmlDeviceGetMemoryInfo(void* device, std::uint64_t* out) {
  static const auto attribute =
      reinterpret_cast<int (*)(int*, int, int)>(driver_function("cuDeviceGetAttribute"));
  static const auto retain =
      reinterpret_cast<int (*)(void**, int)>(driver_function("cuDevicePrimaryCtxRetain"));
  static const auto release =
      reinterpret_cast<int (*)(int)>(driver_function("cuDevicePrimaryCtxRelease"));
  static const auto push = reinterpret_cast<int (*)(void*)>(driver_function("cuCtxPushCurrent"));
  static const auto pop = reinterpret_cast<int (*)(void**)>(driver_function("cuCtxPopCurrent"));
  static const auto memory =
      reinterpret_cast<int (*)(std::size_t*, std::size_t*)>(driver_function("cuMemGetInfo"));
  constexpr int kIntegrated = 18;  // CU_DEVICE_ATTRIBUTE_INTEGRATED
  const int ordinal = static_cast<int>(reinterpret_cast<std::uintptr_t>(device)) - 1;
  int integrated = 0;
  void* context = nullptr;
  if (!device || !out || !attribute || !retain || attribute(&integrated, kIntegrated, ordinal)) {
    return 2;
  }
  if (integrated != 0) return 3;
  if (retain(&context, ordinal) != 0 || push(context) != 0) return 2;
  std::size_t free = 0;
  std::size_t total = 0;
  memory(&free, &total);
  pop(&context);
  release(ordinal);
  out[0] = total;
  out[1] = free;
  out[2] = total - free;
  return 0;
}

STANDIN_EXPORT int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count,
                                                        void* processes) {
  (void)processes;
  if (!device || !count) return 2;
  *count = 0;
  return 0;
}

STANDIN_EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, void*) {
  return 3;
}
STANDIN_EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned, void*) {
  return 3;
}
STANDIN_EXPORT int nvmlDeviceGetGpuFabricInfoV(void*, void*) {
  return 3;
}
