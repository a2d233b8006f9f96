// What `cubfc check --policy` says of a policy file before somebody installs it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cubfc::cli::check {

struct PolicyCheck {
  // What would be in force: a kind, "enforced" or "setting", and a text, "CUBFC_MEM_LIMIT=8GiB".
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::string> problems;
};
// Checks the file as if it were at /etc/cubfc.conf and root's. Throws Failure if it cannot be read.
PolicyCheck check_policy_file(const std::string& path);

}  // namespace cubfc::cli::check
