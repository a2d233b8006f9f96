// Environment: a short list, so that a linear search is the quickest one.
#include "config/environment.h"

#include <algorithm>

namespace cubfc::config {

Environment::Environment(std::span<const std::string> entries) {
  for (const std::string& entry : entries) {
    add(entry);
  }
}

Environment::Environment(std::initializer_list<std::string_view> entries) {
  for (const std::string_view entry : entries) {
    add(entry);
  }
}

void Environment::add(std::string_view entry) {
  const std::size_t equals = entry.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return;
  }
  const std::string_view name = entry.substr(0, equals);
  if (!lookup(name)) {
    variables_.emplace_back(name, entry.substr(equals + 1));
  }
}

std::optional<std::string_view> Environment::lookup(std::string_view name) const {
  const auto found =
      std::ranges::find(variables_, name, &std::pair<std::string, std::string>::first);
  if (found == variables_.end()) {
    return std::nullopt;
  }
  return found->second;
}

std::vector<std::string_view> Environment::names() const {
  std::vector<std::string_view> result;
  result.reserve(variables_.size());
  for (const auto& [name, value] : variables_) {
    result.emplace_back(name);
  }
  return result;
}

}  // namespace cubfc::config
