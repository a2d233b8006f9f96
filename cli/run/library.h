// Where libcubfc.so is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cubfc::cli {

inline constexpr std::string_view kLibraryName = "libcubfc.so";

// The absolute path of the command that runs; "" where it cannot be known.
std::string this_command();

// The absolute path of `given`, or, without it, of the library that belongs to this
// command: in the build folder or where both were installed. Throws Failure when there is none, or
// when LD_PRELOAD cannot name it.
std::string find_library(const std::optional<std::string>& given);

// Of LD_PRELOAD, what is not a libcubfc.so.
std::string others_preloaded(const std::string& before);

// LD_PRELOAD with the library behind what is there: a sanitizer's runtime must stay the first. A
// libcubfc.so that is there already, of an image or of another run around this one, makes place for
// this one: two would both intercept.
std::string preload_with(const std::string& before, const std::string& library);

}  // namespace cubfc::cli
