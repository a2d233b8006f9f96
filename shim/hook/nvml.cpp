#include "shim/hook/nvml.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>

#include "shim/driver/nvml_types.h"
#include "shim/environment.h"
#include "shim/loader/loaded_objects.h"
#include "shim/loader/no_cancellation.h"
#include "shim/loader/symbols.h"
#include "shim/process.h"
#include "shim/share/limited_memory.h"

namespace cubfc {
namespace {

using nvml::kSuccess;
using nvml::kVersion2;
using nvml::Memory;
using nvml::MemoryV2;
using Handle = nvml::Device;

using GetMemory = int (*)(Handle, Memory*);
using GetMemoryV2 = int (*)(Handle, MemoryV2*);
using GetUuid = int (*)(Handle, char*, unsigned);

// The functions of the NVML library in which the program first looked up one of them. That library
// stays loaded from then on, because the program may close it while cubfc calls it. Made once,
// never destroyed.
struct Nvml {
  GetMemory memory;
  GetMemoryV2 memory_v2;
  GetUuid uuid;
};
std::atomic<const Nvml*> the_nvml{nullptr};

// Parses "GPU-7374616e-6469-6e20-0000-000000000000"; the UUID of an instance (MIG) begins with
// "MIG-". Returns nothing for any other form. A driver before 470 names an instance in another
// form, which does not contain the UUID that CUDA has for the instance.
std::optional<DeviceId> parse_uuid(std::string_view text) {
  constexpr std::size_t kPrefix = 4;
  constexpr std::size_t kDigits = 32;
  if (!text.starts_with("GPU-") && !text.starts_with("MIG-")) {
    return std::nullopt;
  }
  DeviceId id{};
  std::size_t digits = 0;
  for (const char c : text.substr(kPrefix)) {
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (c == '-') {
      continue;
    }
    if (value < 0 || digits == kDigits) {
      return std::nullopt;
    }
    char& byte = id.at(digits / 2);
    byte = static_cast<char>(static_cast<unsigned char>(byte) << 4U | static_cast<unsigned>(value));
    ++digits;
  }
  return digits == kDigits ? std::optional(id) : std::nullopt;
}

// The memory of this GPU under the program's limits; nothing where NVML's own figures are to be
// passed on. Finds the GPU by its UUID, because NVML numbers GPUs in its own order, and CUDA may be
// shown only some of them.
std::optional<LimitedMemory> limited_memory_of(Handle handle, std::uint64_t total_bytes) {
  const NoCancellation no_cancellation;
  std::array<char, 96> text{};
  if (the_nvml.load()->uuid(handle, text.data(), text.size()) != kSuccess) {
    return std::nullopt;
  }
  text.back() = '\0';
  try {
    const std::optional<DeviceId> id = parse_uuid(text.data());
    if (!id) {
      return std::nullopt;
    }
    const Process* const process = Process::existing();
    const bool has_figures = process != nullptr && !process->is_in_child();
    const config::Policy& policy = policy_of_process();
    const figures::ProcessFigures* const own = has_figures ? &process->figures() : nullptr;
    return loaded_xla_runtime() == nullptr
               ? limited_memory(policy, *id, total_bytes, own)
               : limited_memory(policy.beside_xla(), *id, total_bytes, own);
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
}

int get_memory(Handle handle, Memory* memory) {
  const int result = the_nvml.load()->memory(handle, memory);
  if (result == kSuccess && memory != nullptr) {
    if (const auto limited = limited_memory_of(handle, memory->total)) {
      *memory = {limited->total_bytes, limited->total_bytes - limited->used_bytes,
                 limited->used_bytes};
    }
  }
  return result;
}

int get_memory_v2(Handle handle, MemoryV2* memory) {
  const int result = the_nvml.load()->memory_v2(handle, memory);
  if (result == kSuccess && memory != nullptr && memory->version == kVersion2) {
    if (const auto limited = limited_memory_of(handle, memory->total)) {
      *memory = {kVersion2, limited->total_bytes, 0, limited->total_bytes - limited->used_bytes,
                 limited->used_bytes};
    }
  }
  return result;
}

bool shows_limits() noexcept try {
  const config::Policy& policy = policy_of_process();
  return !policy.disable.value && policy.limits() && policy.nvml.value != config::Nvml::kNo;
} catch (...) {
  return false;
}

template <typename Function>
Function look_up(void* handle, const char* name) noexcept {
  return reinterpret_cast<Function>(real_dlsym(handle, name));
}

// The functions of the NVML library. The first call looks them up in the library of `handle`, and
// keeps that library loaded; later calls return the same functions. nullptr if the library has no
// nvmlDeviceGetUUID, or cannot be kept loaded. `in_it`: an address in the library.
const Nvml* know(void* handle, const void* in_it) noexcept {
  if (const Nvml* const known = the_nvml.load()) {
    return known;
  }
  const Nvml found{look_up<GetMemory>(handle, "nvmlDeviceGetMemoryInfo"),
                   look_up<GetMemoryV2>(handle, "nvmlDeviceGetMemoryInfo_v2"),
                   look_up<GetUuid>(handle, "nvmlDeviceGetUUID")};
  void* const kept = found.uuid == nullptr ? nullptr : open_object_with(in_it);
  auto* const made = kept == nullptr ? nullptr : new (std::nothrow) Nvml(found);
  clear_dlerror();
  const Nvml* known = nullptr;
  if (made != nullptr && the_nvml.compare_exchange_strong(known, made)) {
    return made;
  }
  delete made;
  return known;  // that of a thread that was quicker; else nullptr
}

}  // namespace

void* route_nvml(void* handle, std::string_view name, void* found) noexcept {
  const bool is_first = name == "nvmlDeviceGetMemoryInfo";
  if ((!is_first && name != "nvmlDeviceGetMemoryInfo_v2") || !is_of_nvml(found) ||
      !shows_limits()) {
    return found;
  }
  // The functions of a second NVML library are not replaced: a process that works has only one.
  const Nvml* const nvml = know(handle, found);
  if (nvml != nullptr && found == reinterpret_cast<void*>(nvml->memory)) {
    return reinterpret_cast<void*>(&get_memory);
  }
  if (nvml != nullptr && found == reinterpret_cast<void*>(nvml->memory_v2)) {
    return reinterpret_cast<void*>(&get_memory_v2);
  }
  return found;
}

}  // namespace cubfc
