#include "cli/run/software_gpu.h"

#include <filesystem>

namespace cubfc::cli {

std::optional<std::string> find_software_gpu(const std::string& library) {
  namespace fs = std::filesystem;
  const fs::path here = fs::path(library).parent_path();
  std::error_code ignored;
  for (const char* folder : {
           "cubfc/software-gpu",        // installed by CMake, or as a package of Debian's
           "../../cubfc_software_gpu",  // a wheel of its own, beside the library's
           "../tests/standin/lib",      // built
       }) {
    const fs::path path = (here / folder).lexically_normal();
    if (fs::is_regular_file(path / "libcuda.so.1", ignored)) {
      return path.string();
    }
  }
  return std::nullopt;
}

}  // namespace cubfc::cli
