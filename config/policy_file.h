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
  /// Not empty: what it enforces cannot be known, and why, in one line. No device memory is to be
  /// given then: whoever enforces a limit wants it kept.
  std::string unusable;
};

/// Of a text that may be hostile. A line is empty, or a comment that begins with '#', or
/// NAME=value, or `enforce NAME=value`. White space around a line, a name and a value does not
/// count, nor do a byte order mark, the word `export` before a name, and quotes around a value. Of
/// two lines with one name the first counts. Where it may not enforce, `why_not` says so ("it is
/// not root's"), and such lines are as the others are; where it may, one that cannot be understood
/// makes the file unusable. Throws only std::bad_alloc.
[[nodiscard]] PolicyFile parse_policy_file(std::string path, std::string_view text,
                                           std::string_view why_not = {});

}  // namespace cubfc::config
