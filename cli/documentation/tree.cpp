#include "cli/documentation/tree.h"

#include <algorithm>
#include <string_view>

namespace cubfc::cli::documentation {
namespace {

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

std::string without_parentheses(std::string text) {
  for (std::size_t open = 0; (open = text.find(" (")) != std::string::npos;) {
    const std::size_t close = text.find(')', open);
    text.erase(open, close == std::string::npos ? close : close - open + 1);
  }
  return text;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

Flag flag_of(const CLI::Option& option) {
  Flag flag;
  for (const std::string& name : option.get_snames()) {
    flag.names.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    flag.names.push_back("--" + name);
  }
  flag.description = option.get_description();
  if (option.get_items_expected_max() > 0) {
    flag.value = option.get_type_name().empty() ? "VALUE" : option.get_type_name();
    flag.values = values_in(flag.description);
  }
  return flag;
}

Command command_of(const CLI::App& app) {
  Command command{.name = app.get_name(),
                  .description = app.get_description(),
                  .positional = {},
                  .values = {},
                  .footer = app.get_footer(),
                  .flags = {}};
  for (const CLI::Option* const option : app.get_options()) {
    if (option->get_positional()) {
      command.positional = option->get_name();
      command.values = values_in(option->get_description());
    } else if (!option->get_group().empty()) {
      command.flags.push_back(flag_of(*option));
    }
  }
  command.starts_program = command.positional == "PROGRAM";
  return command;
}

}  // namespace

std::vector<std::string> values_in(const std::string& description) {
  constexpr std::string_view kAccepted = "accepted: ";
  const std::size_t at = description.rfind(kAccepted);
  std::string rest = without_parentheses(
      at == std::string::npos ? description : description.substr(at + kAccepted.size()));
  rest = replaced(replaced(rest, " or ", ","), ", ", ",");
  std::vector<std::string> values;
  for (std::string_view left = rest; !left.empty();) {
    const std::string_view word = left.substr(0, left.find(','));
    if (!is_word(word)) {
      return {};
    }
    values.emplace_back(word);
    left.remove_prefix(std::min(left.size(), word.size() + 1));
  }
  return values.size() > 1 ? values : std::vector<std::string>{};
}

Tree tree_of(const CLI::App& app) {
  Tree tree{.program = command_of(app), .commands = {}};
  for (const CLI::App* const each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!each->get_group().empty()) {
      tree.commands.push_back(command_of(*each));
    }
  }
  return tree;
}

}  // namespace cubfc::cli::documentation
