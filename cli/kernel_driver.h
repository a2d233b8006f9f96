// The kernel's NVIDIA driver.
#pragma once

#include <string>

namespace cubfc::cli {

// "580.95.05"; empty where it is not loaded. Fit for a terminal.
std::string kernel_driver_version();

}  // namespace cubfc::cli
