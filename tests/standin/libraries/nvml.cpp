// NVML, as far as PyTorch asks: how many devices there are, which process uses them, that none has
// links or a fabric. Status 0 is NVML_SUCCESS, 2 _INVALID_ARGUMENT, 3 _NOT_SUPPORTED, 6 _NOT_FOUND.
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
