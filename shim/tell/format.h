// Text from a format string of {fmt}, checked when it is compiled.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace cubfc {

// Compiles {fmt}'s formatter once: it is built from headers, and each file that calls it gets a
// copy, which takes longer to compile than the file. Call format() (log.cpp, with spdlog, differs).
std::string vformat(fmt::string_view format, fmt::format_args args);

template <typename... Args>
std::string format(fmt::format_string<Args...> format, Args&&... args) {
  return cubfc::vformat(format, fmt::make_format_args(args...));
}

// 1.5 GiB, 512 B: a size for people.
std::string bytes_text(std::uint64_t count);

}  // namespace cubfc
