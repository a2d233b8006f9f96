// What the kernel grants a cgroup of each GPU's memory, by its controller "dmem" (Linux 6.14),
// where the GPU's driver has registered with it; NVIDIA's does from 610 on. The kernel keeps it;
// cubfc only reads it. Knows files; nothing of CUDA.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cubfc {

// Bytes of one region: mostly all of a GPU's memory.
struct CgroupMemory {
  std::optional<std::uint64_t> max;  // the least of the cgroup's and of those above it
  std::string max_file;              // which says so
};

// The folder of the cgroup that these lines of /proc/PID/cgroup name; empty where it is in none
// that has the controller.
std::string cgroup_folder(std::string_view lines);
// By the names that drivers give to regions, such as "nvidia/0000:01:00.0/fb". Nothing of those
// that are not limited. Throws std::bad_alloc.
std::map<std::string, CgroupMemory> cgroup_memory(const std::string& folder);
// Of the GPU at that PCI address, "0000:01:00.0", which is a part of its region's name; for this
// process. Of several regions the one with the most, but for those that are no memory of the GPU's.
CgroupMemory own_cgroup_memory(std::string_view pci_address);

}  // namespace cubfc
