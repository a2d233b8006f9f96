// Variables of other projects that concern device memory and that cubfc knows but does not follow,
// and why. Knows text only.
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
  /// Why the variable has no effect here, and which one has, as the end of a sentence.
  std::string_view meaning;
};

/// Calls `look` with each known name, in the order of kKnownNames. Any thread.
void for_each_known_name(const std::function<void(const KnownName&)>& look);

/// The documentation's table of the known names, in Markdown, each line ended.
[[nodiscard]] std::string known_names_table();

}  // namespace cubfc::config
