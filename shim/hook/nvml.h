// NVML, as far as it says how much memory a GPU has: nvidia-smi, nvitop, pynvml and their like, and
// programs that plan with it. Under a limit that the program sees they are told of the limit.
#pragma once

#include <string_view>

namespace cubfc {

// Whether NVML has a function of this name that cubfc answers for. Cheap: asked for every look-up
// of a name that is not the driver's.
inline bool is_name_of_nvml_memory(const char* name) noexcept {
  return name[0] == 'n' && name[1] == 'v' &&
         std::string_view(name).starts_with("nvmlDeviceGetMemoryInfo");
}

// For the exported dlsym: the program has looked up `name` by a handle, and the function is
// `found`. Ours where that is NVML's and the program's limits are to be shown, else `found`. Ours
// calls that function first, and passes on what it answers but for the figures of a success.
void* route_nvml(void* handle, std::string_view name, void* found) noexcept;

}  // namespace cubfc
