// What `cubfc check --policy` says of a policy file before somebody installs it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cubfc::cli::check {

struct PolicyCheck {
  // What would be in force, and how: "enforced", "CUBFC_MEM_LIMIT=8GiB".
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<std::string> problems;
};
// Of the file as it would be at /etc/cubfc.conf, root's. Throws Failure if it cannot be read.
PolicyCheck check_policy_file(const std::string& path);

}  // namespace cubfc::cli::check
