// Where the software GPU is: a driver without a GPU, on which the tests, `cubfc demo` and `cubfc
// fit` run programs.
#pragma once

#include <optional>
#include <string>

namespace cubfc::cli {

// The absolute path of the folder with the software GPU's libcuda.so.1 that belongs to `library`, a
// libcubfc.so: in the build folder, or where both were installed. Nothing where there is none.
std::optional<std::string> find_software_gpu(const std::string& library);

}  // namespace cubfc::cli
