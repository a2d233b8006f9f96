#include "shim/sleep/reach.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <optional>
#include <string_view>

#include "shim/loader/loaded_objects.h"
#include "shim/sleep/gates.h"
#include "shim/tell/format.h"

namespace cubfc {
namespace {

// Devices whose drivers reach GPU memory that a program registers with them, by physical address.
constexpr std::array<std::string_view, 5> kDevices{"/dev/infiniband/uverbs", "/dev/gdrdrv",
                                                   "/dev/nvidia-fs", "/dev/cxi", "/dev/hfi1"};
// NVIDIA's libraries that use device memory by private functions of the driver's.
constexpr std::array<std::string_view, 4> kLibraries{"libnvcuvid.so", "libnvidia-encode.so",
                                                     "libnvidia-opticalflow.so", "libnvoptix.so"};

// The path of an open file that is one of kDevices; empty if there is none. A nullopt: the files
// cannot be listed.
std::optional<std::string> open_device() {
  std::string found;
  DIR* const listing = opendir("/proc/self/fd");
  if (listing == nullptr) {
    return std::nullopt;
  }
  while (const dirent* const entry = readdir(listing)) {
    std::array<char, PATH_MAX> path{};
    const ssize_t length = readlinkat(dirfd(listing), entry->d_name, path.data(), path.size());
    const std::string_view name(path.data(), length < 0 ? 0 : static_cast<std::size_t>(length));
    if (std::any_of(kDevices.begin(), kDevices.end(), [&](std::string_view device) {
          return name.find(device) != std::string_view::npos;
        })) {
      found = name;
      break;
    }
  }
  closedir(listing);
  return found;
}

}  // namespace

std::string who_needs_no_gate() {
  if (const char* const library = loaded_library(kLibraries); library != nullptr) {
    return format("has {} loaded, which may use the memory by itself", library);
  }
  return who_needs_no_gate_by_now();
}

std::string who_needs_no_gate_by_now() {
  if (const std::string_view function = gates::ungated_function(); !function.empty()) {
    return format("uses {}, of which this cubfc does not know whether it needs the memory",
                  function);
  }
  const std::optional<std::string> device = open_device();
  if (!device) {
    return "may have files open that reach the memory: /proc/self/fd cannot be listed";
  }
  if (!device->empty()) {
    return format("has {} open, by which the memory may be used from outside of the GPU", *device);
  }
  return "";
}

}  // namespace cubfc
