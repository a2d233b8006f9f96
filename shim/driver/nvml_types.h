// What of nvml.h is used, so that no header of NVIDIA's management library is needed. All of it has
// been the same since driver 450; the functions with it are looked up by name.
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
  unsigned version;  // kVersion2, by whoever asks
  unsigned long long total, reserved, free, used;
};
constexpr unsigned kVersion2 = sizeof(MemoryV2) | 2U << 24U;

}  // namespace cubfc::nvml
