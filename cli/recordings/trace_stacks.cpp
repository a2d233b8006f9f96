#include "cli/recordings/trace_stacks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {
namespace {

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 18> digits{'0', 'x'};
  const auto end = std::to_chars(digits.data() + 2, digits.data() + digits.size(), value, 16).ptr;
  return {digits.data(), end};
}

}  // namespace

void TraceStacks::set_objects(std::string_view lines) {
  objects_.clear();
  known_.clear();  // the same addresses may be other functions now
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    add_object(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

void TraceStacks::add_object(std::string_view line) {
  std::array<std::uint64_t, 3> numbers{};
  for (std::uint64_t& number : numbers) {
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), number, 16);
    if (error != std::errc() || stop == line.data() + line.size() || *stop != ' ') {
      return;
    }
    line.remove_prefix(static_cast<std::size_t>(stop - line.data()) + 1);
  }
  objects_[numbers[0]] = {numbers[1], numbers[2], std::string(line)};
}

std::string TraceStacks::frame(std::uint64_t address) const {
  const auto after = objects_.upper_bound(address);
  if (after == objects_.begin() || address >= std::prev(after)->second.end) {
    return hexadecimal(address);
  }
  const auto& [start, object] = *std::prev(after);
  return object.path + "+" + hexadecimal(address - start + object.offset);
}

bool TraceStacks::add(std::uint16_t thread, std::string_view payload,
                      std::vector<std::vector<std::string>>& stacks) {
  if (payload.size() % sizeof(std::uint64_t) != 0) {
    return false;
  }
  const auto [known, is_new] =
      known_.try_emplace(std::string(payload), static_cast<std::uint32_t>(stacks.size()));
  if (is_new) {
    std::vector<std::string>& stack = stacks.emplace_back();
    for (; !payload.empty(); payload.remove_prefix(sizeof(std::uint64_t))) {
      std::uint64_t address = 0;
      std::memcpy(&address, payload.data(), sizeof(address));
      stack.push_back(frame(address));
      text_bytes_ += stack.back().size() + sizeof(std::string);
      if (text_bytes_ > kMostStackText) {
        return false;
      }
    }
  }
  of_thread_[thread] = known->second;
  return true;
}

std::uint32_t TraceStacks::take(std::uint16_t thread) {
  const auto waiting = of_thread_.find(thread);
  if (waiting == of_thread_.end()) {
    return kNone;
  }
  const std::uint32_t stack = waiting->second;
  of_thread_.erase(waiting);
  return stack;
}

}  // namespace cubfc::recordings
