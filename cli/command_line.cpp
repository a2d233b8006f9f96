#include "cli/command_line.h"

#include <algorithm>
#include <string_view>

#include "config/values.h"

namespace cubfc::cli {
namespace {

// The edit distance of the two, but 1 where they have the same letters in another order.
std::size_t distance(const std::string& word, const std::string& name) {
  return word != name && std::ranges::is_permutation(word, name)
             ? 1
             : config::edit_distance(word, name);
}

// A text such as: ; did you mean "--trace"? It names the one of `names` that is nearest to `word`.
// Empty where none is near: at most two letters differ, or one of the two is the end of the other.
std::string meant(const std::string& word, const std::vector<std::string>& names) {
  constexpr std::size_t kLongest = 32;
  if (word.size() >= kLongest || names.empty()) {
    return {};
  }
  // "--limit" for "--mem-limit", or the other way round.
  const auto akin = std::ranges::find_if(names, [&](const std::string& name) {
    return word.starts_with("--") &&
           (name.ends_with(word.substr(1)) || word.ends_with(name.substr(1)));
  });
  if (akin != names.end()) {
    return "; did you mean \"" + *akin + "\"?";
  }
  const std::string& nearest = *std::ranges::min_element(
      names, {}, [&](const std::string& name) { return distance(word, name); });
  const std::size_t most = word.size() < 5 ? 1 : 2;
  return distance(word, nearest) <= most ? "; did you mean \"" + nearest + "\"?" : "";
}

// The subcommand that the words name, or `app` itself.
const CLI::App& command_of(const CLI::App& app) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  return commands.empty() ? app : *commands.front();
}

// The message about the first option among the words that does not exist; empty where there is
// none.
std::string unknown_option(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  const auto flag =
      std::ranges::find_if(words, [](const std::string& word) { return word.starts_with('-'); });
  if (flag == words.end()) {
    return {};
  }
  std::vector<std::string> names;
  for (const CLI::Option* const option : command_of(app).get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  const std::string name = flag->substr(0, flag->find('='));
  return "there is no option " + config::quoted(name) + meant(name, names);
}

// `message`: what CLI11 says, such as "--trace: 1 required FILE missing".
std::string of_missing_value(const CLI::App& command, const std::string& message) {
  const std::string name = message.substr(0, message.find_first_of(": "));
  const CLI::Option* const option = command.get_option_no_throw(name);
  if (option == nullptr || option->get_items_expected_min() == 0) {
    return name + " takes no value";
  }
  const std::string type = option->get_type_name();
  return name + " needs a value: " + name + "=" + (type.empty() ? "VALUE" : type);
}

std::string in_words(const CLI::App& app, const CLI::ParseError& error) {
  const bool is_of_extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool is_of_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  std::string message = error.what();
  if (std::string unknown = unknown_option(app);
      (is_of_extras || is_of_missing) && !unknown.empty()) {
    return unknown;
  }
  if (is_of_extras) {
    return config::quoted(app.remaining(true).front()) + " is one word too many";
  }
  if (is_of_missing) {  // "FILE is required"
    return "which " + message.substr(0, message.find(' ')) + "?";
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return of_missing_value(command_of(app), message);
  }
  constexpr std::string_view kNotConverted = "Could not convert: ";  // "--observe = maybe"
  return message.starts_with(kNotConverted)
             ? message.substr(kNotConverted.size()) + " cannot be used"
             : message;
}

}  // namespace

std::string explained(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = command_of(app);
  const std::string name = &command == &app ? "" : command.get_name();
  const std::string said = in_words(app, error);
  return (name.empty() ? "" : name + ": ") + said + (said.ends_with('?') ? " See" : "; see") +
         " `cubfc " + (name.empty() ? "" : name + " ") + "--help`";
}

std::string unknown_command(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with('-')) {
    return {};
  }
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  if (std::ranges::find(names, words[0]) != names.end()) {
    return {};
  }
  const std::string nearest = meant(words[0], names);
  return "there is no command " + config::quoted(words[0]) +
         (nearest.empty() ? "; see `cubfc --help`" : nearest);
}

}  // namespace cubfc::cli
