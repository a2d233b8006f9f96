#include "cli/option_flags.h"

#include <optional>
#include <variant>

#include "cli/failure.h"
#include "config/environment.h"

namespace cubfc::cli {

std::string flag_of(const config::Option& option) {
  std::string flag = "--";
  for (const char c : option.own.name.substr(config::kOwnPrefix.size())) {
    flag += c == '_' ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return flag;
}

bool is_boolean(const config::Option& option) {
  const std::optional<config::Value> value = option.own.read("true", {});
  return value && std::holds_alternative<bool>(*value);
}

std::string value_name(const config::Option& option) {
  return is_boolean(option) ? "" : option.own.accepted.starts_with("a path ") ? "FILE" : "VALUE";
}

config::Value read_flag(const config::Option& option, const std::string& flag,
                        const std::string& text, const config::Policy& so_far) {
  const std::optional<config::Value> value = option.own.read(config::trimmed(text), so_far);
  if (!value) {
    throw Failure{flag + " " + config::quoted(text) +
                      " cannot be used; accepted: " + std::string(option.own.accepted),
                  kUsage};
  }
  return *value;
}

void add_library_option(CLI::App& command, std::optional<std::string>& into) {
  command.add_option("--library", into, "libcubfc.so (the one beside this command)")
      ->type_name("FILE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

}  // namespace cubfc::cli
