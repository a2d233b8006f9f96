#include "cli/run/settings.h"

#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "config/environment.h"
#include "shim/policy_on_disk.h"

namespace cubfc::cli {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string search_path() {
  return std::getenv("PATH") == nullptr ? "/bin:/usr/bin" : variable("PATH");
}

std::vector<std::string> environment_with(const Variables& changes) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) {
      entries.push_back(text);
    }
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) {
      entries.push_back(name + "=" + value);
    }
  }
  return entries;
}

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) {
    pointers.push_back(const_cast<char*>(string.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

config::Policy policy_with(const Variables& settings) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : settings) {
    entries.push_back(name + "=" + value);  // of two the first counts
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (config::is_our_entry(*entry)) {
      entries.emplace_back(*entry);
    }
  }
  return config::read_policy(config::Environment(entries), read_policy_file());
}

}  // namespace cubfc::cli
