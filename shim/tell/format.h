// Text from a format string of {fmt}, checked when it is compiled.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace cubfc {

// The only place where {fmt}'s formatter is compiled. {fmt} is built from headers: each file that
// calls it directly gets a copy, which takes longer to compile than the rest of the file. So call
// format(). (log.cpp, which includes spdlog, differs.)
std::string vformat(fmt::string_view format, fmt::format_args args);

template <typename... Args>
std::string format(fmt::format_string<Args...> format, Args&&... args) {
  return cubfc::vformat(format, fmt::make_format_args(args...));
}

// A size for people: "1.50 GiB", "512 B".
std::string bytes_text(std::uint64_t count);

}  // namespace cubfc
