// Where libcubfc.so is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cubfc::cli {

inline constexpr std::string_view kLibraryName = "libcubfc.so";

// The absolute path of `given`, or, without it, of the library that belongs to this
// command: in the build folder or where both were installed. Throws Failure when there is none, or
// when LD_PRELOAD cannot name it.
std::string find_library(const std::optional<std::string>& given);

}  // namespace cubfc::cli
