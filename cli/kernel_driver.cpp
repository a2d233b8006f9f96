#include "cli/kernel_driver.h"

#include <fstream>

#include "cli/report/wording.h"

namespace cubfc::cli {

std::string kernel_driver_version() {
  std::string version;
  std::ifstream file("/sys/module/nvidia/version");
  std::getline(file, version);
  return report::printable(version);
}

}  // namespace cubfc::cli
