// cuFuncSetBlockShape, cuParamSet*, cuLaunchGrid: launches as they were before CUDA 4, whose shape
// and arguments are set one by one and stay with the function. Deprecated, and still used.
#include <algorithm>
#include <array>
#include <cstring>

#include "behaviour.h"
#include "entry_point.h"
#include "launch.h"
#include "modules.h"

namespace standin {
namespace {

constexpr std::size_t kParameterBytes = 4096;  // as many as a kernel can have

struct LaunchSettings {
  std::array<unsigned, 3> block{1, 1, 1};
  std::vector<std::byte> parameters;
  std::size_t parameter_bytes = 0;
};

// Guarded by state().mutex.
std::map<CUfunction, LaunchSettings>& settings_of() {
  static auto* const instance = new std::map<CUfunction, LaunchSettings>;
  return *instance;
}

// Calls `work` with what was set of the function.
template <typename Work>
CUresult With(CUfunction handle, Work work) {
  const Lock lock(state().mutex);
  const Function* function = nullptr;
  if (const CUresult error = FindFunction(handle, function)) return error;
  return work(settings_of()[handle]);
}

CUresult SetParameter(CUfunction handle, int offset, const void* from, std::size_t bytes) {
  if (offset < 0 || !from) return CUDA_ERROR_INVALID_VALUE;
  return With(handle, [&](LaunchSettings& settings) {
    const auto at = static_cast<std::size_t>(offset);
    if (settings.parameters.size() < at + bytes) settings.parameters.resize(at + bytes);
    std::memcpy(settings.parameters.data() + at, from, bytes);
    return CUDA_SUCCESS;
  });
}

CUresult LaunchGrid(CUfunction handle, int width, int height, CUstream stream) {
  LaunchSettings settings;
  const CUresult found = With(handle, [&](const LaunchSettings& of) {
    settings = of;
    return CUDA_SUCCESS;
  });
  if (found != CUDA_SUCCESS) return found;
  if (width <= 0 || height <= 0) return CUDA_ERROR_INVALID_VALUE;
  settings.parameters.resize(std::max(settings.parameter_bytes, kParameterBytes));
  std::size_t bytes = settings.parameters.size();
  void* packed[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, settings.parameters.data(),
                    CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  const Launch launch{{static_cast<unsigned>(width), static_cast<unsigned>(height), 1},
                      {settings.block[0], settings.block[1], settings.block[2]},
                      {}};
  return LaunchFunction(handle, launch, 0, stream, {nullptr, packed});
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuFuncSetBlockShape, (CUfunction function, int x, int y, int z), (function, x, y, z)) {
  if (x <= 0 || y <= 0 || z <= 0) return CUDA_ERROR_INVALID_VALUE;
  return With(function, [&](LaunchSettings& settings) {
    settings.block = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
    return CUDA_SUCCESS;
  });
}

// Kernels need no shared memory here.
ENTRY(cuFuncSetSharedSize, (CUfunction function, unsigned bytes), (function, bytes)) {
  (void)bytes;
  return With(function, [](LaunchSettings&) { return CUDA_SUCCESS; });
}

ENTRY(cuParamSetSize, (CUfunction function, unsigned bytes), (function, bytes)) {
  return With(function, [&](LaunchSettings& settings) {
    settings.parameter_bytes = bytes;
    return CUDA_SUCCESS;
  });
}

ENTRY(cuParamSeti, (CUfunction function, int offset, unsigned value), (function, offset, value)) {
  return SetParameter(function, offset, &value, sizeof(value));
}

ENTRY(cuParamSetf, (CUfunction function, int offset, float value), (function, offset, value)) {
  return SetParameter(function, offset, &value, sizeof(value));
}

ENTRY(cuParamSetv, (CUfunction function, int offset, void* from, unsigned bytes),
      (function, offset, from, bytes)) {
  return SetParameter(function, offset, from, bytes);
}

ENTRY(cuLaunch, (CUfunction function), (function)) {
  return LaunchGrid(function, 1, 1, nullptr);
}

ENTRY(cuLaunchGrid, (CUfunction function, int width, int height), (function, width, height)) {
  return LaunchGrid(function, width, height, nullptr);
}

ENTRY(cuLaunchGridAsync, (CUfunction function, int width, int height, CUstream stream),
      (function, width, height, stream)) {
  return LaunchGrid(function, width, height, stream);
}
