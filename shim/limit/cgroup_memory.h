// Reads how much of each GPU's memory the kernel grants a cgroup, by the controller "dmem" (Linux
// 6.14). The GPU's driver must have registered with that controller; NVIDIA's does from version 610
// on. The kernel enforces the limit; cubfc only reads it. Knows files; nothing of CUDA.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cubfc {

// The limit of one of the memory regions that a driver registers. Mostly a GPU has one region, with
// all of its memory.
struct CgroupMemory {
  std::optional<std::uint64_t> max;  // in bytes: the lowest of the cgroup and those above it
  std::string max_file;              // the file that has this limit
};

// The folder of the cgroup that the lines of /proc/PID/cgroup name. Empty if they name no cgroup of
// version 2: only those have the controller.
std::string cgroup_folder(std::string_view lines);
// The limits of the cgroup with this folder, by the name that the driver gives to the region, such
// as "nvidia/0000:01:00.0/fb". A region that is not limited has no entry. Throws std::bad_alloc.
std::map<std::string, CgroupMemory> cgroup_memory(const std::string& folder);
// The limit of this process on the GPU at `pci_address`, which is "0000:01:00.0" or the beginning
// of that, and is part of the region's name. Of several regions the one with the highest limit is
// chosen; those that are not the GPU's own memory are left out.
CgroupMemory own_cgroup_memory(std::string_view pci_address);

}  // namespace cubfc
