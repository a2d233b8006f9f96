// A policy file: the same names as in the environment, one a line, for all processes of a machine
// or a container. Knows its form; whoever reads it from a disk says whether it may enforce.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cubfc::config {

/// Where it is looked for.
inline constexpr const char* kPolicyFile = "/etc/cubfc.conf";

/// Larger is no policy.
inline constexpr std::size_t kLargestPolicyFile = std::size_t{1} << 20U;

/// What one says. A value type.
struct PolicyFile {
  std::string path;                   ///< for messages
  std::vector<std::string> settings;  ///< "NAME=value", where the environment says nothing
  std::vector<std::string> enforced;  ///< the same, whatever the environment says
  std::vector<std::string> problems;  ///< one line each: what of it is not in force, and why
};

/// Of a text that may be hostile. A line is empty, or a comment that begins with '#', or
/// NAME=value, or `enforce NAME=value`; white space around a line, a name and a value does not
/// count. Of two lines with one name the first counts. Where it may not enforce, `why_not` says so
/// ("it is not root's"), and such lines are as the others are. Throws only std::bad_alloc.
[[nodiscard]] PolicyFile parse_policy_file(std::string path, std::string_view text,
                                           std::string_view why_not = {});

}  // namespace cubfc::config
