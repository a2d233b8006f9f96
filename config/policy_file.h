// A policy file: the same names as in the environment, one a line, for all processes of a machine
// or a container. Knows the form of the file. The caller (shim/policy_on_disk.h) reads the file,
// and says whether it may enforce.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cubfc::config {

/// The path of the policy file.
inline constexpr const char* kPolicyFile = "/etc/cubfc.conf";

/// The most bytes of a policy file; a larger one is refused.
inline constexpr std::size_t kLargestPolicyFile = std::size_t{1} << 20U;

/// What a policy file says. A value type.
struct PolicyFile {
  std::string path;  ///< for messages
  /// "NAME=value". Each holds unless the environment sets the same option, under whatever name.
  std::vector<std::string> settings;
  std::vector<std::string> enforced;  ///< "NAME=value". Each holds whatever the environment says
  std::vector<std::string> problems;  ///< one line each: what of the file is not in force, and why
  /// Not empty: it cannot be known what the file enforces. One line that says why. No device memory
  /// is to be given then, because an enforced limit must be kept.
  std::string unusable;
};

/// Reads the text of a policy file, which may be hostile. A line is empty, or a comment that begins
/// with '#', or NAME=value, or `enforce NAME=value`. White space around a line, a name and a value
/// does not count, nor do a byte order mark, the word `export` before a name, and quotes around a
/// value. Of two lines with one name the first counts.
///
/// `why_not` says why the file may not enforce ("it is not root's"): then an `enforce` line is read
/// as a plain one. If `why_not` is empty, the file may enforce: then an `enforce` line that cannot
/// be understood, or that contradicts an earlier one, makes the file unusable. Throws only
/// std::bad_alloc.
[[nodiscard]] PolicyFile parse_policy_file(std::string path, std::string_view text,
                                           std::string_view why_not = {});

}  // namespace cubfc::config
