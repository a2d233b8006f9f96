#include "shim/tell/format.h"

#include <array>
#include <cstddef>

#include <fmt/format.h>

namespace cubfc {

std::string vformat(fmt::string_view format, fmt::format_args args) {
  return fmt::vformat(format, args);
}

std::string bytes_text(std::uint64_t count) {
  constexpr std::array<const char*, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(count);
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? format("{} B", count)
                   : format("{:.{}f} {}", value, value < 100 ? 2 : 1, kUnits[unit]);
}

}  // namespace cubfc
