// The limits that a driver from 615 on keeps itself, as NVML tells them. For a child of
// `cubfc check`: NVML may hang as the driver may.
#pragma once

#include <string>

namespace cubfc::cli::check {

// One line of JSON: {"gpus": [{"uuid", "hard_bytes", "soft_bytes"}]}, those GPUs that have a limit
// for the cgroup of that path; none where this driver keeps no limits. {"error"} where NVML is
// there and refuses to tell.
std::string nvml_limits(const std::string& cgroup);

}  // namespace cubfc::cli::check
