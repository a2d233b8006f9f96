// Where libcubfc.so is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cubfc::cli {

inline constexpr std::string_view kLibraryName = "libcubfc.so";
// The library in its place for a program that can sleep.
inline constexpr std::string_view kSleepLibraryName = "libcubfc_sleep.so";

// The absolute path of this command's own file; "" where it cannot be known.
std::string this_command();

// The absolute path of `given`, or, without it, of the library of this name that belongs to this
// command: in the build folder or where both were installed. Throws Failure when there is none, or
// when LD_PRELOAD cannot name it.
std::string find_library(const std::optional<std::string>& given,
                         std::string_view name = kLibraryName);

// The entries of `before`, a value of LD_PRELOAD, without any of the two libraries.
std::string others_preloaded(const std::string& before);

// A value of LD_PRELOAD: the entries of `before`, then `library`, since a sanitizer's runtime must
// stay the first. Any libcubfc.so in `before`, set by a container image or by a `cubfc run` around
// this one, is left out: two of them would both intercept.
std::string preload_with(const std::string& before, const std::string& library);

}  // namespace cubfc::cli
