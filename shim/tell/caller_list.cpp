#include "shim/tell/caller_list.h"

#include <algorithm>

#include "shim/tell/format.h"

namespace cubfc::figures {

std::string listed(const std::vector<CallerPart>& parts) {
  constexpr std::size_t kMost = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(parts.size(), kMost); ++i) {
    text += format("{}{} {}", i == 0 ? "" : ", ", parts[i].name, bytes_text(parts[i].bytes));
  }
  return text + (parts.size() > kMost ? format(", {} more", parts.size() - kMost) : "");
}

}  // namespace cubfc::figures
