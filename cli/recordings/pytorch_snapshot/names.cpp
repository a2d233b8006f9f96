#include "cli/recordings/pytorch_snapshot/names.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace cubfc::recordings {

std::uint16_t SnapshotNames::stream(std::uint64_t handle) {
  constexpr std::size_t kMost = 65'535;
  const auto [known, is_new] = streams_.try_emplace(
      handle, static_cast<std::uint16_t>(std::min(recording_.threads.size(), kMost)));
  if (is_new && recording_.threads.size() <= kMost) {
    std::array<char, 18> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), handle, 16).ptr;
    const bool is_last = recording_.threads.size() == kMost;
    recording_.threads.push_back({0, is_last ? "other streams"
                                     : handle == 0
                                         ? "the default stream"
                                         : "stream 0x" + std::string(digits.data(), end)});
  }
  return known->second;
}

std::uint8_t SnapshotNames::category(std::string_view name) {
  constexpr std::size_t kMost = 255;
  const auto [known, is_new] = numbers_.try_emplace(
      std::string(name), static_cast<std::uint8_t>(std::min(categories_.size(), kMost)));
  if (is_new && categories_.size() <= kMost) {
    categories_.emplace_back(categories_.size() == kMost ? "others" : name);
  }
  return known->second;
}

}  // namespace cubfc::recordings
