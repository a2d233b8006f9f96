// The version of NVIDIA's kernel module.
#pragma once

#include <string>

namespace cubfc::cli {

// "580.95.05", fit for a terminal; empty where the module is not loaded.
std::string kernel_driver_version();

}  // namespace cubfc::cli
