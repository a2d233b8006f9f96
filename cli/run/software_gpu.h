// Where the software GPU is: a driver without a GPU, which the tests and `cubfc demo` run programs
// on.
#pragma once

#include <optional>
#include <string>

namespace cubfc::cli {

// The folder with its libcuda.so.1, an absolute path, where it belongs to `library`, a
// libcubfc.so: in the build folder, or where both were installed. Nothing where it is not there.
std::optional<std::string> find_software_gpu(const std::string& library);

}  // namespace cubfc::cli
