#include "visible_devices.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>
#include <string>

#include "settings.h"

namespace standin {
namespace {

// GPU-7374616e-6469-6e00-0000-000000000030
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

// Processes that share a file of usage have the same devices; any other has devices of its own.
std::uint64_t Machine() {
  const std::string& shared = settings().shared;
  if (!shared.empty()) return std::hash<std::string>()(shared);
  std::uint64_t machine = 0;
  return getrandom(&machine, sizeof machine, 0) == sizeof machine
             ? machine
             : static_cast<std::uint64_t>(getpid());
}

std::string_view Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

}  // namespace

// "standin", which machine it is, the number.
CUuuid UuidOf(int number) {
  static const std::uint64_t kMachine = Machine();
  CUuuid uuid{};
  std::memcpy(uuid.bytes, "standin", 7);
  std::memcpy(uuid.bytes + 7, &kMachine, sizeof kMachine);
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
