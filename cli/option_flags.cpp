#include "cli/option_flags.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
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

namespace {

// The kinds of values that many options take. `begins`: how Spelling::accepted of such an option
// begins.
struct ValueName {
  std::string_view begins;
  std::string_view name;
};
constexpr std::array kValueNames = std::to_array<ValueName>(
    {{"a size ", "SIZE"}, {"a path ", "FILE"}, {"a share ", "SHARE"}, {"a time ", "TIME"}});

struct Heading {
  std::string_view text;
  std::string_view options;  // without CUBFC_; a space before and behind each
};
constexpr std::array kHeadings = std::to_array<Heading>({
    {"Limits, and who shares a GPU",
     " MEM_FRACTION MEM_FRACTION_OF MEM_LIMIT MEM_REQUEST GROUP GROUP_LIMIT LIMIT_COUNTS NVML "},
    {"How memory is taken and given back",
     " ALLOCATOR PREALLOCATE PREALLOCATE_LIMIT RESERVE HOST_RESERVE ASYNC_PREALLOCATE TRIM_AFTER "
     "UNIFIED_MEMORY FREE STREAM_ORDERED IPC SLEEP SLEEP_AFTER SLEEP_HOST "},
    {"What is told and recorded",
     " LOG_LEVEL LOG_FILE SHOW_STATS SUMMARY OOM_REPORT TRACE TRACE_LIMIT TRACE_STACKS "
     "TRACE_TENSORS SHARE_STATS TRACK_CALLERS LABELS LIMIT_ORIGIN "},
    {"Nothing at all", " DISABLE "},
});

// The text without Markdown's backquotes.
std::string plain(std::string_view text) {
  std::string result;
  std::ranges::copy_if(text, std::back_inserter(result), [](char c) { return c != '`'; });
  return result;
}

// The first size in the text that has no unit and is so small that a unit was probably meant.
// Nothing where there is none, or the option is no size. The text is a size, or sizes by device.
std::optional<std::string> size_without_unit(const config::Option& option, std::string_view text) {
  constexpr std::uint64_t kMeant = std::uint64_t{1} << 20U;
  if (value_name(option) != "SIZE") {
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

std::string value_name(const config::Option& option) {
  if (is_boolean(option)) {
    return "";
  }
  const auto known = std::ranges::find_if(kValueNames, [&](const ValueName& each) {
    return option.own.accepted.starts_with(each.begins);
  });
  return known == kValueNames.end() ? "VALUE" : std::string(known->name);
}

std::string value_names_text() {
  return "SIZE is bytes, or 8GiB, 512M and the like (K, M, G, T are powers of 1024; KB, MB, GB, TB "
         "of\n1000). A limit and a request may also be a share of the device, 25%, or one for each "
         "device:\n0=8GiB,1=25%. SHARE is 0.5 or 50%. TIME is 30s, 500ms, 5min or 1h. FILE may "
         "have "
         "%p and %h\nin it, the process id and the host. A switch takes its value by =: "
         "--share-stats=false.";
}

std::string help_of(const config::Option& option) {
  const bool is_switch = is_boolean(option);
  std::string text = plain(option.meaning);
  if (option.default_text != "unset" && !(is_switch && option.default_text == "false")) {
    text += "; default: " + std::string(option.default_text);
  }
  return value_name(option) == "VALUE" ? text + "; accepted: " + plain(option.own.accepted) : text;
}

std::string heading_of(const config::Option& option) {
  const std::string name =
      " " + std::string(option.own.name.substr(config::kOwnPrefix.size())) + " ";
  const auto heading = std::ranges::find_if(kHeadings, [&](const Heading& each) {
    return each.options.find(name) != std::string_view::npos;
  });
  return heading == kHeadings.end() ? "Options" : std::string(heading->text);
}

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
