// The declarations of nvml.h that cubfc uses, so that no header of NVIDIA's management library is
// needed. They have been the same since driver 450, but for MemoryV2. The functions that take them
// are looked up by name.
#pragma once

namespace cubfc::nvml {

using Device = void*;  // nvmlDevice_t

// nvmlReturn_t
constexpr int kSuccess = 0;

// nvmlMemory_t, in bytes
struct Memory {
  unsigned long long total, free, used;
};

// nvmlMemory_v2_t, from driver 510 on
struct MemoryV2 {
  unsigned version;  // the caller sets it to kVersion2
  unsigned long long total, reserved, free, used;
};
constexpr unsigned kVersion2 = sizeof(MemoryV2) | 2U << 24U;

}  // namespace cubfc::nvml
