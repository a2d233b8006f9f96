#include "cli/check/policy.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/failure.h"
#include "config/environment.h"
#include "config/policy.h"
#include "config/policy_file.h"
#include "config/values.h"

namespace cubfc::cli::check {

PolicyCheck check_policy_file(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  std::string text(config::kLargestPolicyFile + 1, '\0');
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!input.is_open() || input.bad()) {
    throw Failure{"check: --policy " + config::quoted(path) + ": " + std::strerror(errno)};
  }
  text.resize(static_cast<std::size_t>(input.gcount()));
  PolicyCheck check;
  if (text.size() > config::kLargestPolicyFile) {
    check.problems.push_back(path + ": it is larger than 1 MiB, so no device memory is given");
    return check;
  }
  const config::PolicyFile file = config::parse_policy_file(path, text);
  const config::Policy policy = config::read_policy(config::Environment({}), file);
  for (const std::string& setting : file.enforced) {
    check.settings.emplace_back("enforced", setting);
  }
  for (const std::string& setting : file.settings) {
    check.settings.emplace_back("setting", setting);
  }
  if (policy.disable.value) {
    check.problems.push_back(
        "cubfc does nothing, and nothing else holds: " + policy.disable.origin.text() + " is set");
  }
  if (policy.limit_unusable) {
    check.problems.push_back(policy.limit_explanation);
  }
  check.problems.insert(check.problems.end(), policy.warnings.begin(), policy.warnings.end());
  return check;
}

}  // namespace cubfc::cli::check
