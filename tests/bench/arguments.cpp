// Reading the command line.
#include "arguments.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "option_reader.h"

namespace cubfc::bench {
namespace {

constexpr int kMostRepetitions = 1000;

std::optional<int> count_in(std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 1 || value > kMostRepetitions) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::variant<Arguments, std::string> parse_arguments(int count, const char* const* values) {
  Arguments arguments;
  std::optional<int> rounds;
  std::optional<int> jitter;
  OptionReader reader(count, values);
  while (reader.next()) {
    const std::string name(reader.name());
    const bool is_switch = name == "--quick" || name == "--help" || name == "-h";
    if (is_switch && reader.has_inline_value()) {
      return name + " takes no value";
    }
    if (is_switch) {
      (name == "--quick" ? arguments.quick : arguments.help) = true;
      continue;
    }
    if (name != "--only" && name != "--rounds" && name != "--jitter" && name != "--json") {
      return "unknown argument '" + name + "'";
    }
    const std::optional<std::string_view> value = reader.value();
    if (!value || value->empty()) {
      return name + " needs a value";
    }
    if (name == "--only") {
      arguments.only = *value;
    } else if (name == "--json") {
      arguments.json_file = *value;
    } else {
      std::optional<int>& number = name == "--rounds" ? rounds : jitter;
      number = count_in(*value);
      if (!number) {
        return name + " takes a number from 1 to " + std::to_string(kMostRepetitions) + ", not '" +
               std::string(*value) + "'";
      }
    }
  }
  arguments.rounds = rounds.value_or(arguments.quick ? 3 : 9);
  arguments.jitter = jitter.value_or(arguments.quick ? 1 : 6);
  return arguments;
}

}  // namespace cubfc::bench
