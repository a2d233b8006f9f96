// The limits that NVIDIA's driver itself enforces, from 615 on, as NVML tells them. For a child of
// `cubfc check`: NVML may hang, as the driver may.
#pragma once

#include <string>

namespace cubfc::cli::check {

// One line of JSON: {"gpus": [{"uuid", "hard_bytes", "soft_bytes"}]}, with the GPUs that have a
// limit for the cgroup of this path; with none where the driver enforces no limits. "error" is
// added where NVML refuses to answer.
std::string nvml_limits(const std::string& cgroup);

}  // namespace cubfc::cli::check
