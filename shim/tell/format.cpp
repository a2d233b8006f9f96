#include "shim/tell/format.h"

#include <fmt/format.h>

namespace cubfc {

std::string vformat(fmt::string_view format, fmt::format_args args) {
  return fmt::vformat(format, args);
}

}  // namespace cubfc
