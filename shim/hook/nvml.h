// The functions of NVML that say how much memory a GPU has. nvidia-smi, nvitop, pynvml and programs
// that plan with it call them. If the program's limit is to be shown to it as the size of the GPU,
// cubfc's functions answer with that limit (share/limited_memory.h).
#pragma once

#include <string_view>

namespace cubfc {

// Whether this may be the name of a function of NVML's that cubfc answers for; route_nvml()
// decides. Takes a few instructions: the exported dlsym asks for each name that does not begin with
// "cu".
inline bool is_name_of_nvml_memory(const char* name) noexcept {
  return name[0] == 'n' && name[1] == 'v' &&
         std::string_view(name).starts_with("nvmlDeviceGetMemoryInfo");
}

// Called by the exported dlsym when the program has looked up `name` by a dlopen handle and the
// real dlsym has answered `found`. If `found` is NVML's and the program's limits are to be shown,
// returns cubfc's function; else `found`. cubfc's function calls NVML's, and changes only the sizes
// in an answer that is a success.
void* route_nvml(void* handle, std::string_view name, void* found) noexcept;

}  // namespace cubfc
