// Text from a format string of {fmt}, checked when it is compiled.
#pragma once

#include <fmt/core.h>

#include <string>

namespace cubfc {

// The one caller of {fmt}'s formatter. It is built from headers, and each file that calls it by
// itself gets a copy of its own, which takes longer to compile than the rest of the file.
std::string vformat(fmt::string_view format, fmt::format_args args);

template <typename... Args>
std::string format(fmt::format_string<Args...> format, Args&&... args) {
  return cubfc::vformat(format, fmt::make_format_args(args...));
}

}  // namespace cubfc
