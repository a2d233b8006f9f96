// The last part of a path.
#pragma once

#include <string_view>

namespace cubfc::recordings {

// "train.py" for "/home/me/train.py"; all of a path without a folder. Valid as long as `path` is.
inline std::string_view file_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace cubfc::recordings
