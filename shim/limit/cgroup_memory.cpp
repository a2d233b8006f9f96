#include "shim/limit/cgroup_memory.h"

#include <algorithm>
#include <array>
#include <utility>

#include "config/values.h"
#include "shim/tell/text_file.h"

namespace cubfc {
namespace {

constexpr std::string_view kTop = "/sys/fs/cgroup";

// Calls `look` with the name and the bytes of each region that is limited. A line of dmem.max is
// "REGION BYTES"; a region that is not limited has "max" in place of a number.
template <typename Look>
void for_each_region(const std::string& path, Look look) {
  for_each_line(text_of_file(path), [&](std::string_view line) {
    line = config::trimmed(line);
    const std::size_t space = line.rfind(' ');
    if (const auto bytes =
            config::read_count(space == std::string_view::npos ? "" : line.substr(space + 1))) {
      look(std::string(line.substr(0, space)), *bytes);
    }
  });
}

// Whether the region is memory of the GPU at this address: "nvidia/0000:01:00.0/fb" is at
// 0000:01:00.0, "nvidia/10000:01:00.0/fb" is not. Memory of the host and the like (kOthers) never
// is.
bool is_memory_of(std::string_view region, std::string_view pci_address) {
  constexpr std::array<std::string_view, 4> kOthers{"gtt", "tt", "bar", "stolen"};
  const std::size_t at = region.find(pci_address);
  const std::string_view last = region.substr(region.rfind('/') + 1);
  return at != std::string_view::npos && (at == 0 || region[at - 1] == '/') &&
         std::ranges::find(kOthers, last) == kOthers.end();
}

}  // namespace

std::string cgroup_folder(std::string_view lines) {
  constexpr std::string_view kUnified = "0::";
  std::string folder;
  for_each_line(lines, [&](std::string_view line) {
    if (line.starts_with(kUnified) && folder.empty()) {
      const std::string_view path = line.substr(kUnified.size());
      folder = std::string(kTop) + std::string(path == "/" ? "" : path);
    }
  });
  return folder;
}

std::map<std::string, CgroupMemory> cgroup_memory(const std::string& folder) {
  std::map<std::string, CgroupMemory> regions;
  for (std::string path = folder; path.starts_with(kTop); path = path.substr(0, path.rfind('/'))) {
    const std::string file = path + "/dmem.max";
    for_each_region(file, [&](const std::string& name, std::uint64_t bytes) {
      CgroupMemory& region = regions[name];
      if (!region.max || bytes < *region.max) {
        region.max = bytes;
        region.max_file = file;
      }
    });
  }
  return regions;
}

CgroupMemory own_cgroup_memory(std::string_view pci_address) {
  CgroupMemory most;
  for (auto& [name, region] : cgroup_memory(cgroup_folder(text_of_file("/proc/self/cgroup")))) {
    if (is_memory_of(name, pci_address) && (!most.max || *region.max > *most.max)) {
      most = std::move(region);
    }
  }
  return most;
}

}  // namespace cubfc
