#include "visible_devices.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

namespace standin {
namespace {

// GPU-73746164-696e-2d64-6576-6963652d3000
std::string TextOf(const CUuuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
  }
  return text;
}

std::optional<int> NumberOf(std::string_view name, int devices) {
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size()) {
    return number >= 0 && number < devices ? std::optional(number) : std::nullopt;
  }
  std::optional<int> found;
  if (!name.starts_with("GPU-")) return found;
  for (int i = 0; i < devices; ++i) {
    if (!TextOf(UuidOf(i)).starts_with(name)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

}  // namespace

CUuuid UuidOf(int number) {
  CUuuid uuid{};
  std::memcpy(uuid.bytes, "standin-device-", 15);
  uuid.bytes[15] = static_cast<char>('0' + number);
  return uuid;
}

std::vector<int> VisibleDevices(std::string_view list, int devices) {
  std::vector<int> visible;
  for (;;) {
    const std::size_t comma = list.find(',');
    const std::optional<int> number = NumberOf(Trimmed(list.substr(0, comma)), devices);
    if (!number || std::find(visible.begin(), visible.end(), *number) != visible.end()) break;
    visible.push_back(*number);
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return visible;
}

}  // namespace standin
