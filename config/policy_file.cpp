#include "config/policy_file.h"

#include <algorithm>

#include "config/environment.h"
#include "config/options.h"
#include "config/values.h"

namespace cubfc::config {
namespace {

// Removes the word, and the white space behind it, from the start of the line. False, and the line
// is unchanged, if the line does not begin with the word and white space.
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

// Whether the word stands anywhere in the line, in whatever case, also with zeros between its
// letters, as in UTF-16.
bool has_word(std::string_view line, std::string_view word) {
  std::string plain;
  for (const char c : line) {
    if (c != '\0') {
      plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return plain.find(word) != std::string::npos;
}

// A name of cubfc's own that no option has.
bool is_unknown(std::string_view name) {
  return name.starts_with(kOwnPrefix) && find_option(name) == nullptr;
}

// Whether `settings` has another value of the same name.
bool contradicts(const std::vector<std::string>& settings, const std::string& setting) {
  const std::string name = setting.substr(0, setting.find('=') + 1);
  return std::any_of(settings.begin(), settings.end(), [&](const std::string& each) {
    return each.starts_with(name) && each != setting;
  });
}

// Without quotes, if the same stand at both ends.
std::string_view unquoted(std::string_view value) {
  const bool is_quoted = value.size() >= 2 && value.front() == value.back() &&
                         (value.front() == '"' || value.front() == '\'');
  return is_quoted ? value.substr(1, value.size() - 2) : value;
}

}  // namespace

PolicyFile parse_policy_file(std::string path, std::string_view text, std::string_view why_not) {
  PolicyFile file;
  file.path = std::move(path);
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  bool is_refused = false;
  std::size_t number = 0;
  for (std::size_t start = 0; start < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string_view line = trimmed(text.substr(start, end - start));
    start = end + 1;
    if (line.empty() || line.front() == '#') {
      continue;
    }
    const std::string_view whole = line;
    takes_word(line, "export");
    const bool enforces = takes_word(line, "enforce");
    takes_word(line, "export");
    const std::size_t equals = line.find('=');
    const std::string_view name = trimmed(line.substr(0, equals));
    const bool counts = enforces && why_not.empty();
    const auto object = [&](const std::string& what) {
      const std::string problem = file.path + ", line " + std::to_string(number + 1) + ": " + what;
      // A line in which the word stands anywhere is taken for one that was to enforce: a mistyped
      // one must not be left out.
      if (!why_not.empty() || !has_word(whole, "enforce")) {
        file.problems.push_back(problem);
      } else if (file.unusable.empty()) {
        file.unusable = problem;
      }
    };
    if (equals == std::string_view::npos || name.empty()) {
      object(quoted(whole) + " is neither NAME=value nor enforce NAME=value");
      continue;
    }
    const std::string_view value = trimmed(unquoted(trimmed(line.substr(equals + 1))));
    if (!is_ours(name) || (counts && is_unknown(name))) {
      object(quoted(name) + " is no name that cubfc knows");
    } else if (counts && value.empty()) {
      object(quoted(whole) + " enforces nothing: it has no value");
    } else if (const std::string setting = std::string(name) + "=" + std::string(value);
               counts && contradicts(file.enforced, setting)) {
      object(quoted(name) + " is enforced twice, with different values");
    } else {
      is_refused = is_refused || (enforces && !counts);
      (counts ? file.enforced : file.settings).push_back(setting);
    }
  }
  if (is_refused) {
    file.problems.push_back(file.path + ": the environment can override what it enforces, since " +
                            std::string(why_not));
  }
  return file;
}

}  // namespace cubfc::config
