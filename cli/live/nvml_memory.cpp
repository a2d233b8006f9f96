#include "cli/live/nvml_memory.h"

#include <dlfcn.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "shim/driver/nvml_types.h"

namespace cubfc::live {
namespace {

using nvml::kSuccess;
using nvml::kVersion2;
using nvml::Memory;
using nvml::MemoryV2;

struct Nvml {
  int (*init)();
  int (*by_place)(const char*, void**);
  int (*memory)(void*, Memory*);
  int (*memory_v2)(void*, MemoryV2*);  // from driver 510 on; else nullptr
};

template <typename Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

// Loads and initialises NVML. Returns why it cannot be asked; empty where it can.
std::string load(Nvml& nvml) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return "libnvidia-ml.so.1 cannot be loaded";
  }
  find(library, "nvmlInit_v2", nvml.init);
  find(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.by_place);
  find(library, "nvmlDeviceGetMemoryInfo", nvml.memory);
  find(library, "nvmlDeviceGetMemoryInfo_v2", nvml.memory_v2);
  if (nvml.init == nullptr || nvml.by_place == nullptr || nvml.memory == nullptr) {
    return "libnvidia-ml.so.1 has not all functions";
  }
  const int answer = nvml.init();
  return answer == kSuccess ? "" : "NVML answers " + std::to_string(answer);
}

// The place on the bus of each GPU, by its UUID.
std::map<std::string, std::string> places() {
  constexpr std::string_view kTitle = "GPU UUID:";
  std::map<std::string, std::string> found;
  std::error_code failed;
  for (const auto& folder : std::filesystem::directory_iterator(kGpusOfDriver, failed)) {
    std::ifstream information(folder.path() / "information");
    for (std::string line; std::getline(information, line);) {
      if (line.starts_with(kTitle)) {
        const std::size_t begin = line.find_first_not_of(" \t", kTitle.size());
        found[begin == std::string::npos ? "" : line.substr(begin)] = folder.path().filename();
      }
    }
  }
  return found;
}

std::string memory_of(const Nvml& nvml, const std::string& place) {
  void* device = nullptr;
  int answer = nvml.by_place(place.c_str(), &device);
  MemoryV2 memory{kVersion2, 0, 0, 0, 0};
  if (answer == kSuccess && nvml.memory_v2 != nullptr &&
      nvml.memory_v2(device, &memory) == kSuccess) {
    return std::to_string(memory.used + memory.free) + ' ' + std::to_string(memory.used);
  }
  Memory older{};
  answer = answer == kSuccess ? nvml.memory(device, &older) : answer;
  return answer == kSuccess ? std::to_string(older.total) + ' ' + std::to_string(older.used)
                            : "- NVML answers " + std::to_string(answer);
}

}  // namespace

void tell_gpu_memory() {
  Nvml nvml{};
  const std::string problem = load(nvml);
  for (std::string line; std::getline(std::cin, line);) {
    const std::map<std::string, std::string> all = places();
    std::istringstream uuids(line);
    std::string told;
    for (std::string uuid; uuids >> uuid;) {
      const auto place = all.find(uuid);
      told += uuid + ' ' +
              (!problem.empty()     ? "- " + problem
               : place == all.end() ? "- the driver names no such GPU"
                                    : memory_of(nvml, place->second)) +
              '\n';
    }
    std::fputs((told + '\n').c_str(), stdout);
    std::fflush(stdout);
  }
}

}  // namespace cubfc::live
