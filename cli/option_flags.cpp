#include "cli/option_flags.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
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

namespace {

// Of a size, or sizes by device, the first that has no unit and is less than anybody means by that;
// nothing where each is one.
std::optional<std::string> size_without_unit(const config::Option& option, std::string_view text) {
  constexpr std::uint64_t kMeant = std::uint64_t{1} << 20U;
  if (!option.own.accepted.starts_with("a size ")) {
    return std::nullopt;
  }
  while (!text.empty()) {
    std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    one = config::trimmed(one.substr(one.find('=') + 1));
    const auto number = config::read_count(one);
    if (number && *number > 0 && *number < kMeant) {
      return std::string(one);
    }
  }
  return std::nullopt;
}

}  // namespace

config::Value read_flag(const config::Option& option, const std::string& flag,
                        const std::string& text, const config::Policy& so_far) {
  const std::optional<config::Value> value = option.own.read(config::trimmed(text), so_far);
  if (!value) {
    throw Failure{flag + " " + config::quoted(text) +
                      " cannot be used; accepted: " + std::string(option.own.accepted),
                  kUsage};
  }
  if (const auto bytes = size_without_unit(option, text)) {
    throw Failure{flag + " " + config::quoted(text) + " is " + *bytes + " bytes; with a unit: " +
                      *bytes + "GiB, or " + *bytes + "MiB, or " + *bytes + "B",
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
