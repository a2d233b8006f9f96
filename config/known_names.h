// Variables of other projects that say something of device memory, which cubfc sees and does not
// follow, and why. Knows text only.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace cubfc::config {

/// One of environment.h's kKnownNames.
struct KnownName {
  std::string_view name;
  std::string_view owner;
  /// Whether a value that is not empty says anything of memory.
  bool (*concerns)(std::string_view text);
  /// Why it has no effect here, and what has, as the end of a sentence.
  std::string_view meaning;
};

/// All of them, in that order. Any thread.
void for_each_known_name(const std::function<void(const KnownName&)>& look);

/// The documentation's table of them, in Markdown, each line ended.
[[nodiscard]] std::string known_names_table();

}  // namespace cubfc::config
