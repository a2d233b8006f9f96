#include "config/policy_file.h"

#include <algorithm>

#include "config/environment.h"
#include "config/values.h"

namespace cubfc::config {
namespace {

// Without the word, if the line begins with it.
bool takes_word(std::string_view& line, std::string_view word) {
  if (!line.starts_with(word) || line.size() == word.size()) {
    return false;
  }
  const std::string_view rest = line.substr(word.size());
  const std::string_view value = trimmed(rest);
  if (value.size() == rest.size()) {  // no white space between
    return false;
  }
  line = value;
  return true;
}

}  // namespace

PolicyFile parse_policy_file(std::string path, std::string_view text, std::string_view why_not) {
  PolicyFile file;
  file.path = std::move(path);
  bool is_refused = false;
  std::size_t number = 0;
  for (std::size_t start = 0; start < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string_view line = trimmed(text.substr(start, end - start));
    start = end + 1;
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const bool enforces = takes_word(line, "enforce");
    const std::size_t equals = line.find('=');
    const std::string_view name = trimmed(line.substr(0, equals));
    const auto object = [&](const std::string& what) {
      file.problems.push_back(file.path + ", line " + std::to_string(number + 1) + ": " + what);
    };
    if (equals == std::string_view::npos || name.empty()) {
      object(quoted(line) + " is neither NAME=value nor enforce NAME=value");
    } else if (!is_ours(name)) {
      object(quoted(name) + " is no name that cubfc knows");
    } else {
      const bool counts = enforces && why_not.empty();
      is_refused = is_refused || (enforces && !counts);
      (counts ? file.enforced : file.settings)
          .push_back(std::string(name) + "=" + std::string(trimmed(line.substr(equals + 1))));
    }
  }
  if (is_refused) {
    file.problems.push_back(file.path + ": the environment can override what it enforces, since " +
                            std::string(why_not));
  }
  return file;
}

}  // namespace cubfc::config
