// Reading device_bench's command line: one table says which option goes with which section.
#include "arguments.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "config/values.h"
#include "option_reader.h"

namespace cubfc::bench {
namespace {

constexpr std::uint64_t kKiB = 1U << 10;
constexpr std::uint64_t kMiB = 1U << 20;
constexpr std::uint64_t kGiB = 1U << 30;
constexpr std::uint64_t kMostThreads = 256;
constexpr std::uint64_t kMostStreams = 1024;
constexpr std::uint64_t kMost = 1'000'000'000;

constexpr std::array<std::pair<std::string_view, Section>, 6> kSections{{
    {"pairs", Section::kPairs},
    {"loop", Section::kLoop},
    {"trace", Section::kTrace},
    {"growth", Section::kGrowth},
    {"idle", Section::kIdle},
    {"all", Section::kAll},
}};

using Text = std::string_view;
using Numbers = std::vector<std::uint64_t>;

// The parts between commas as `read` reads them; nothing when it cannot read one.
template <typename Value, typename Read>
std::optional<std::vector<Value>> list_of(Text text, Read read) {
  std::vector<Value> values;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::optional<Value> value = read(text.substr(0, comma));
    if (!value) {
      return std::nullopt;
    }
    values.push_back(*value);
    if (comma == Text::npos) {
      return values;
    }
    text.remove_prefix(comma + 1);
  }
}

template <typename Value>
bool keep(Value& to, std::optional<Value> value) {
  if (value) {
    to = std::move(*value);
  }
  return value.has_value();
}

std::optional<std::uint64_t> count_from(std::uint64_t least, Text text, std::uint64_t most) {
  const auto value = config::read_count(text);
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

std::optional<Numbers> counts(Text text, std::uint64_t most) {
  return list_of<std::uint64_t>(text, [most](Text part) { return count_from(1, part, most); });
}

std::optional<std::uint64_t> size(Text text) {
  const auto bytes = config::read_size(text);
  return bytes && *bytes > 0 ? bytes : std::nullopt;
}

std::optional<Through> way(Text text) {
  for (const Through through : {Through::kMalloc, Through::kAsync}) {
    if (text == describe(through)) {
      return through;
    }
  }
  return std::nullopt;
}

// An option with a value.
struct Option {
  Text name;
  std::vector<Section> sections;  // that it goes with; empty: all
  Text takes;
  bool (*take)(DeviceArguments& to, Text value);  // false: not such a value
};

const std::vector<Option>& options() {
  using To = DeviceArguments&;
  static const std::vector<Option> table{
      {"--sizes",
       {Section::kPairs, Section::kGrowth},
       "sizes with commas between them",
       [](To to, Text value) {
         return keep(to.section == Section::kPairs ? to.pair_sizes : to.growth_sizes,
                     list_of<std::uint64_t>(value, size));
       }},
      {"--threads",
       {Section::kPairs},
       "numbers from 1 to 256 with commas between them",
       [](To to, Text value) { return keep(to.threads, counts(value, kMostThreads)); }},
      {"--through",
       {Section::kPairs, Section::kLoop, Section::kAll},
       "malloc, async or malloc,async",
       [](To to, Text value) { return keep(to.through, list_of<Through>(value, way)); }},
      {"--live",
       {Section::kPairs},
       "a number",
       [](To to, Text value) { return keep(to.live, count_from(0, value, kMost)); }},
      {"--streams",
       {Section::kLoop},
       "numbers from 1 to 1024 with commas between them",
       [](To to, Text value) { return keep(to.streams, counts(value, kMostStreams)); }},
      {"--size",
       {Section::kLoop},
       "a size",
       [](To to, Text value) { return keep(to.loop_bytes, size(value)); }},
      {"--iterations",
       {Section::kLoop, Section::kIdle},
       "a number from 1 on",
       [](To to, Text value) {
         return keep(to.section == Section::kLoop ? to.loop_iterations : to.idle_iterations,
                     count_from(1, value, kMost));
       }},
      {"--scale",
       {Section::kTrace},
       "a number from 1 on",
       [](To to, Text value) { return keep(to.scale, count_from(1, value, kMost)); }},
      {"--seconds-per-point",
       {},
       "a time of a millisecond or more",
       [](To to, Text value) {
         return keep(to.time_per_point, config::read_time(value)) && to.time_per_point.count() > 0;
       }},
      {"--json", {}, "a file", [](To to, Text value) {
         to.json_file = value;
         return true;
       }}};
  return table;
}

DeviceArguments defaults(Section section, bool quick) {
  DeviceArguments arguments;
  arguments.section = section;
  arguments.quick = quick;
  arguments.time_per_point = std::chrono::milliseconds(quick ? 10 : 150);
  arguments.through = {Through::kMalloc};
  if (section == Section::kAll) {
    arguments.through.push_back(Through::kAsync);
  }
  arguments.pair_sizes =
      quick ? Numbers{512, 64 * kKiB, 2 * kMiB}
            : Numbers{512, 4 * kKiB, 64 * kKiB, kMiB, 2 * kMiB, 16 * kMiB, 64 * kMiB, 256 * kMiB};
  arguments.threads = quick ? Numbers{1, 2} : Numbers{1, 2, 4, 8};
  arguments.streams = {1, 4};
  arguments.loop_bytes = kMiB;
  arguments.loop_iterations = quick ? 50 : 200;
  arguments.growth_sizes = quick ? Numbers{2 * kMiB, 64 * kMiB, 256 * kMiB}
                                 : Numbers{2 * kMiB, 64 * kMiB, kGiB, 8 * kGiB, 32 * kGiB};
  arguments.idle_iterations = quick ? 500 : 20'000;
  return arguments;
}

// What is wrong, or nothing.
std::optional<std::string> take_option(DeviceArguments& to, OptionReader& reader) {
  const std::string name(reader.name());
  const auto option = std::find_if(options().begin(), options().end(),
                                   [&](const Option& o) { return o.name == name; });
  if (option == options().end()) {
    return "unknown argument '" + name + "'";
  }
  const auto& sections = option->sections;
  if (!sections.empty() && std::count(sections.begin(), sections.end(), to.section) == 0) {
    return name + " does not go with this section";
  }
  const std::optional<Text> value = reader.value();
  if (!value || value->empty()) {
    return name + " needs a value";
  }
  if (!option->take(to, *value)) {
    return name + " takes " + std::string(option->takes) + ", not '" + std::string(*value) + "'";
  }
  return std::nullopt;
}

std::optional<std::string> take_rest(DeviceArguments& to, OptionReader& reader) {
  while (reader.next()) {
    const std::string name(reader.name());
    const bool is_switch = name == "--quick" || name == "--help" || name == "-h";
    if (is_switch && reader.has_inline_value()) {
      return name + " takes no value";
    }
    if (is_switch) {
      (name == "--quick" ? to.quick : to.help) = true;
      continue;
    }
    if (!name.starts_with("-") && to.measures(Section::kTrace)) {
      to.traces.push_back(name);
      continue;
    }
    if (auto wrong = take_option(to, reader)) {
      return wrong;
    }
  }
  if (to.section == Section::kTrace && to.traces.empty() && !to.help) {
    return "trace needs a file";
  }
  std::sort(to.growth_sizes.begin(), to.growth_sizes.end());
  to.growth_sizes.erase(std::unique(to.growth_sizes.begin(), to.growth_sizes.end()),
                        to.growth_sizes.end());
  return std::nullopt;
}

}  // namespace

const char* describe(Through through) {
  return through == Through::kMalloc ? "malloc" : "async";
}

std::variant<DeviceArguments, std::string> parse_device_arguments(int count,
                                                                  const char* const* values) {
  OptionReader reader(count, values);
  if (!reader.next()) {
    return "what to measure is missing: pairs, loop, trace, growth, idle or all";
  }
  const std::string name(reader.name());
  if (name == "--help" || name == "-h") {
    DeviceArguments arguments;
    arguments.help = true;
    return arguments;
  }
  const auto* const section = std::find_if(kSections.begin(), kSections.end(),
                                           [&](const auto& entry) { return entry.first == name; });
  if (section == kSections.end()) {
    return "'" + name + "' is not one of pairs, loop, trace, growth, idle, all";
  }
  // Defaults depend on --quick, which may stand anywhere.
  const bool quick = std::any_of(values + 1, values + count,
                                 [](const char* value) { return Text(value) == "--quick"; });
  DeviceArguments arguments = defaults(section->second, quick);
  if (auto wrong = take_rest(arguments, reader)) {
    return *wrong;
  }
  return arguments;
}

}  // namespace cubfc::bench
