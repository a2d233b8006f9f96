// For the table of options (options.cpp): descriptions of the values that options accept, and the
// names of other projects under which an option may be set, with the values of each name.
#pragma once

#include <array>
#include <string_view>

#include "config/option_readers.h"
#include "config/options.h"

namespace cubfc::config {

inline constexpr std::string_view kBooleanForms = "true or false (also 1/0, yes/no, on/off)";
inline constexpr std::string_view kSizeForms =
    "a size such as 8589934592, 8GiB or 512M (K, M, G, T are powers of 1024; KB, MB, GB, TB of "
    "1000)";
inline constexpr std::string_view kLimitForms =
    "a size above 0 such as 8589934592, 8GiB or 512M (K, M, G, T are powers of 1024; KB, MB, GB, "
    "TB "
    "of 1000)";
inline constexpr std::string_view kDeviceLimitForms =
    "a size above 0 such as 8589934592, 8GiB or 512M (K, M, G, T are powers of 1024; KB, MB, GB, "
    "TB of 1000) or a share of the device such as 25%, also one for each device: 0=8GiB,1=25%";
inline constexpr std::string_view kMebibytesForms = "a whole number of MiB";
inline constexpr std::string_view kSomeMebibytesForms = "a whole number of MiB, and not 0";
inline constexpr std::string_view kTheirLimitForms =
    "a size such as 20g or 3000m, or bytes (1 MiB at least), also one for each device: "
    "0=20g,1=3000m";
inline constexpr std::string_view kGroupForms =
    "a name of at most 64 letters, digits, -, _ and ., which does not begin with a point";
inline constexpr std::string_view kTimeForms =
    "a time above 0 such as 30, 30s, 500ms, 5min or 1h (seconds without a unit)";
inline constexpr std::string_view kFractionForms =
    "a share above 0 and up to 1, such as 0.5 or 50% (above 1 only with unified memory)";
inline constexpr std::string_view kXlaFractionForms =
    "a share above 0 and up to 1, such as 0.5 or 50%, also 0.75+ and 0.75-0.85 (above 1 only with "
    "unified memory)";
inline constexpr std::string_view kFramesForms = "a whole number from 0 to 64";
inline constexpr std::string_view kShortTextForms = "at most 64 printable ASCII characters";
inline constexpr std::string_view kLabelForms =
    "name=value,name=value of at most 255 bytes: names of letters, digits and _, values without "
    "quotes, backslashes, commas and equals signs";
inline constexpr std::string_view kPathForms =
    "a path of at most 4095 bytes without control characters, and not a word such as true or 1 (a "
    "file of that name is ./1)";

inline constexpr std::string_view kXlaFractionNote =
    "of the total, which is also what is preallocated; also `0.75+`: start with it, no limit; "
    "`0.75-0.85`: start and limit";

inline constexpr Pair kNvidiaPair = {"NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"};

inline std::string_view xla_preallocate_surprise(std::string_view text) {
  const std::string_view word = trimmed(text);
  const bool is_plain =
      same_word(word, "true") || word == "1" || word == "false" || word == "False" || word == "0";
  return is_plain ? ""
                  : "means true, as to JAX, which takes every word for true but false, False and 0";
}

inline constexpr std::array kAllocatorHonoured = std::to_array<Spelling>({
    {"XLA_PYTHON_CLIENT_ALLOCATOR", readers::xla_allocator,
     "default, bfc, platform, address, cuda_async or vmm",
     "`default`, `bfc` → `bfc`; `platform`, `address` → `platform`; `cuda_async`; `vmm`"},
    {"TF_GPU_ALLOCATOR", readers::tf_allocator, "cuda_malloc or cuda_malloc_async",
     "`cuda_malloc` → `platform`, `cuda_malloc_async` → `cuda_async`"},
});
inline constexpr std::array kPreallocateHonoured = std::to_array<Spelling>({
    {"XLA_PYTHON_CLIENT_PREALLOCATE", readers::xla_preallocate,
     "false, False or 0; every other word means true",
     "`false`, `False` or `0`; every other word means true", false, false, nullptr,
     xla_preallocate_surprise},
    {"TF_FORCE_GPU_ALLOW_GROWTH", readers::growth, kBooleanForms, "inverted"},
});
inline constexpr std::array kFractionHonoured = std::to_array<Spelling>({
    {"XLA_CLIENT_MEM_FRACTION", readers::xla_fraction, kXlaFractionForms, kXlaFractionNote, true},
    {"XLA_PYTHON_CLIENT_MEM_FRACTION", readers::xla_fraction, kXlaFractionForms,
     "deprecated by JAX; the same", true},
});
inline constexpr std::array kLimitHonoured = std::to_array<Spelling>({
    {"CUDA_DEVICE_MEMORY_LIMIT", readers::their_device_amounts, kTheirLimitForms,
     "HAMi, KAI; also `CUDA_DEVICE_MEMORY_LIMIT_<N>` for device N", false, true},
    {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", readers::their_device_amounts, kTheirLimitForms,
     "MPS: `0=1G,1=512M`"},
    {"GPU_MEMORY_LIMIT", readers::their_device_amounts, kTheirLimitForms, "KAI"},
    {"NVIDIA_GPU_MEMORY_LIMIT", readers::some_mebibytes_of_devices, kSomeMebibytesForms,
     "NVIDIA's container toolkit: MiB, beside `NVIDIA_GPU_MEMORY_REQUEST`", false, false,
     &kNvidiaPair},
});
inline constexpr std::array kRequestHonoured = std::to_array<Spelling>({
    {"NVIDIA_GPU_MEMORY_REQUEST", readers::mebibytes_of_devices, kMebibytesForms,
     "NVIDIA's container toolkit: MiB, at most `NVIDIA_GPU_MEMORY_LIMIT`", false, false,
     &kNvidiaPair},
});
inline constexpr std::array kPreallocateLimitHonoured = std::to_array<Spelling>({
    {"JAX_PREALLOCATION_SIZE_LIMIT_BYTES", readers::size, kSizeForms,
     "a project's memory guide has it, JAX does not"},
});
inline constexpr std::array kReserveHonoured = std::to_array<Spelling>({
    {"TF_DEVICE_MIN_SYS_MEMORY_IN_MB", readers::mebibytes, "a whole number of MiB", "in MiB"},
});
inline constexpr std::array kAsyncHonoured = std::to_array<Spelling>({
    {"TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC", readers::size_or_minus_one,
     "a size in bytes, or -1 for as much as bfc preallocates", ""},
});
inline constexpr std::array kUnifiedHonoured = std::to_array<Spelling>({
    {"TF_FORCE_UNIFIED_MEMORY", readers::boolean, kBooleanForms, ""},
});

}  // namespace cubfc::config
