#include "cli/check/nvml_limits.h"

#include "cli/json_text.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace cubfc::cli::check {
namespace {

using nlohmann::ordered_json;

// nvml.h of CUDA 13.4: nvmlGetMemoryLimits_v1_t. Requests beyond the hard limit are refused; other
// processes cannot take what is within the soft limit. No limit is 0, or all bits set. The name
// space is the full path of the cgroup's folder.
struct MemoryLimits {
  const char* name_space;
  unsigned long long soft;
  unsigned long long hard;
  unsigned long long used;
};

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;

template <typename Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

std::string nvml_limits(const std::string& cgroup) {
  ordered_json told = {{"gpus", ordered_json::array()}};
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return json_text(told);
  }
  const auto init = find<int()>(library, "nvmlInit_v2");
  const auto count = find<int(unsigned*)>(library, "nvmlDeviceGetCount_v2");
  const auto handle = find<int(unsigned, void**)>(library, "nvmlDeviceGetHandleByIndex_v2");
  const auto uuid = find<int(void*, char*, unsigned)>(library, "nvmlDeviceGetUUID");
  const auto limits = find<int(void*, MemoryLimits*)>(library, "nvmlDeviceGetMemoryLimits_v1");
  if (init == nullptr || count == nullptr || handle == nullptr || uuid == nullptr ||
      limits == nullptr) {
    return json_text(told);
  }
  unsigned devices = 0;
  int refused = init();
  refused = refused == kSuccess ? count(&devices) : refused;
  for (unsigned i = 0; i < devices; ++i) {
    void* device = nullptr;
    std::array<char, 96> text{};
    MemoryLimits of_device{cgroup.c_str(), 0, 0, 0};
    int answer = handle(i, &device);
    answer = answer == kSuccess ? uuid(device, text.data(), text.size()) : answer;
    answer = answer == kSuccess ? limits(device, &of_device) : answer;
    if (answer == kSuccess && of_device.hard != 0 && of_device.hard != ~0ULL) {
      told["gpus"].push_back(
          {{"uuid", text.data()}, {"hard_bytes", of_device.hard}, {"soft_bytes", of_device.soft}});
    } else if (answer != kSuccess && answer != kNotSupported) {
      refused = answer;
    }
  }
  if (refused != kSuccess) {
    told["error"] = "NVML answers " + std::to_string(refused);
  }
  return json_text(told);
}

}  // namespace cubfc::cli::check
