#include "config/option_readers.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "config/environment.h"

namespace cubfc::config::readers {
namespace {

// The highest share that is accepted. Only unified memory, which the driver pages, can be more than
// the device has.
constexpr double kHighestFraction = 1.0;
constexpr double kHighestUnifiedFraction = 64.0;

// The variant is built in place. If it were moved out of a temporary, g++ 12 would warn of the
// string in it.
template <class T>
std::optional<Value> value_of(const std::optional<T>& read) {
  std::optional<Value> value;
  if (read) {
    value.emplace(*read);
  }
  return value;
}

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20U;

std::optional<std::uint64_t> above_zero(std::string_view text) {
  const std::optional<std::uint64_t> bytes = read_size(text);
  return bytes == std::uint64_t{0} ? std::nullopt : bytes;
}

std::optional<Amount> some(std::string_view text) {
  std::optional<Amount> amount = read_amount(text);
  if (amount && (amount->is_none() || amount->share > 1)) {
    amount.reset();
  }
  return amount;
}

// Under these names a number alone means bytes. One below 1 MiB is rejected, because it was meant
// in another unit; 0 is accepted.
std::optional<Amount> their_limit(std::string_view text) {
  const std::optional<std::uint64_t> bytes = read_size(text);
  const bool is_number_alone = read_count(trimmed(text)).has_value();
  if (!bytes || (*bytes > 0 && *bytes < kMebibyte && is_number_alone)) {
    return std::nullopt;
  }
  return Amount{.bytes = *bytes, .share = 0};
}

std::optional<std::uint64_t> read_mebibytes(std::string_view text) {
  std::optional<std::uint64_t> count = read_count(text);
  if (count && *count > std::numeric_limits<std::uint64_t>::max() / kMebibyte) {
    count.reset();
  }
  if (count) {
    *count *= kMebibyte;
  }
  return count;
}

std::optional<Value> in_range(std::optional<Fraction> fraction, const Policy& so_far) {
  const double highest = so_far.unified_memory.value ? kHighestUnifiedFraction : kHighestFraction;
  if (fraction && (fraction->start <= 0 || fraction->start > highest ||
                   fraction->limit.value_or(fraction->start) > highest)) {
    fraction.reset();
  }
  return value_of(fraction);
}

constexpr std::size_t kLongestLabels = 255;

// As Prometheus has them: a name of letters, digits and _, a value without the characters that
// would end it.
bool is_label(std::string_view text) {
  const auto is_letter = [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  return equals != std::string_view::npos && !name.empty() && !is_digit(name.front()) &&
         std::ranges::all_of(name,
                             [&](char c) { return is_letter(c) || is_digit(c) || c == '_'; }) &&
         std::ranges::none_of(text.substr(equals + 1), [](unsigned char c) {
           return c < 0x20 || c == 0x7f || c == '"' || c == '\\' || c == '=';
         });
}

template <class T>
struct Word {
  std::string_view word;
  T value;
};

constexpr std::array kAllocatorWords = std::to_array<Word<Allocator>>({
    {"bfc", Allocator::kBfc},
    {"vmm", Allocator::kVmm},
    {"cuda_async", Allocator::kCudaAsync},
    {"platform", Allocator::kPlatform},
});
constexpr std::array kXlaAllocatorWords = std::to_array<Word<Allocator>>({
    {"default", Allocator::kBfc},
    {"bfc", Allocator::kBfc},
    {"platform", Allocator::kPlatform},
    {"address", Allocator::kPlatform},
    {"cuda_async", Allocator::kCudaAsync},
    {"vmm", Allocator::kVmm},
});
constexpr std::array kTfAllocatorWords = std::to_array<Word<Allocator>>({
    {"cuda_malloc", Allocator::kPlatform},
    {"cuda_malloc_async", Allocator::kCudaAsync},
});
constexpr std::array kFractionOfWords = std::to_array<Word<FractionOf>>({
    {"free", FractionOf::kFree},
    {"total", FractionOf::kTotal},
});
constexpr std::array kFreeWords = std::to_array<Word<FreeMode>>({
    {"sync", FreeMode::kSync},
    {"deferred", FreeMode::kDeferred},
});
constexpr std::array kStreamOrderedWords = std::to_array<Word<StreamOrdered>>({
    {"driver", StreamOrdered::kDriver},
    {"arena", StreamOrdered::kArena},
});
constexpr std::array kIpcWords = std::to_array<Word<Ipc>>({
    {"cubfc", Ipc::kCubfc},
    {"driver", Ipc::kDriver},
});
constexpr std::array kLimitCountsWords = std::to_array<Word<LimitCounts>>({
    {"all", LimitCounts::kAll},
    {"arena", LimitCounts::kArena},
});
constexpr std::array kLogLevelWords = std::to_array<Word<LogLevel>>({
    {"trace", LogLevel::kTrace},
    {"debug", LogLevel::kDebug},
    {"info", LogLevel::kInfo},
    {"warn", LogLevel::kWarn},
    {"warning", LogLevel::kWarn},
    {"error", LogLevel::kError},
    {"err", LogLevel::kError},
    {"critical", LogLevel::kCritical},
    {"off", LogLevel::kOff},
});

// The reader of an option whose values are words.
template <class Words>
std::optional<Value> word(const Words& words, std::string_view text) {
  std::optional<std::remove_cvref_t<decltype(words.front().value)>> result;
  for (const auto& entry : words) {
    if (same_word(entry.word, trimmed(text))) {
      result.emplace(entry.value);
    }
  }
  return value_of(result);
}

// The reader of an option of which two values are yes and no.
template <class T>
std::optional<Value> yes_or_no(std::string_view text, T for_yes, T for_no) {
  const std::optional<bool> yes = read_boolean(text);
  return yes ? std::optional<Value>(*yes ? for_yes : for_no) : std::nullopt;
}

}  // namespace

std::optional<Value> boolean(std::string_view text, const Policy& /*so_far*/) {
  return value_of(read_boolean(text));
}

std::optional<Value> preallocate(std::string_view text, const Policy& /*so_far*/) {
  const std::string_view word = trimmed(text);
  return same_word("whole", word)  ? Preallocate::kWhole
         : same_word("soft", word) ? Preallocate::kSoft
                                   : yes_or_no(text, Preallocate::kYes, Preallocate::kNo);
}

std::optional<Value> xla_preallocate(std::string_view text, const Policy& /*so_far*/) {
  const std::string_view word = trimmed(text);
  const bool no = word == "false" || word == "False" || word == "0";
  return no ? Preallocate::kNo : Preallocate::kYes;
}

std::optional<Value> growth(std::string_view text, const Policy& /*so_far*/) {
  return yes_or_no(text, Preallocate::kNo, Preallocate::kYes);
}

std::optional<Value> size(std::string_view text, const Policy& /*so_far*/) {
  return value_of(read_size(text));
}

std::optional<Value> time_above_zero(std::string_view text, const Policy& /*so_far*/) {
  std::optional<std::chrono::milliseconds> time = read_time(text);
  if (time == std::chrono::milliseconds{0}) {
    time.reset();
  }
  return value_of(time);
}

std::optional<Value> size_above_zero(std::string_view text, const Policy& /*so_far*/) {
  return value_of(above_zero(text));
}

std::optional<Value> device_amounts(std::string_view text, const Policy& /*so_far*/) {
  return value_of(read_device_amounts(text, some));
}

// An amount of 0 means no limit, so it is dropped.
std::optional<Value> their_device_amounts(std::string_view text, const Policy& /*so_far*/) {
  std::optional<DeviceAmounts> amounts = read_device_amounts(text, their_limit);
  if (amounts) {
    std::erase_if(amounts->listed, [](const auto& entry) { return entry.second.is_none(); });
    if (amounts->others && amounts->others->is_none()) {
      amounts->others.reset();
    }
  }
  return value_of(amounts);
}

std::optional<Value> mebibytes_of_devices(std::string_view text, const Policy& /*so_far*/) {
  std::optional<DeviceAmounts> amounts;
  if (const std::optional<std::uint64_t> bytes = read_mebibytes(text)) {
    amounts = DeviceAmounts{.others = Amount{.bytes = *bytes, .share = 0}};
  }
  return value_of(amounts);
}

std::optional<Value> some_mebibytes_of_devices(std::string_view text, const Policy& so_far) {
  return read_mebibytes(text) == std::uint64_t{0} ? std::nullopt
                                                  : mebibytes_of_devices(text, so_far);
}

std::optional<Value> group_name(std::string_view text, const Policy& /*so_far*/) {
  constexpr std::size_t kLongest = 64;
  const std::string_view name = trimmed(text);
  const auto is_good = [](unsigned char c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
           c == '-' || c == '.';
  };
  const bool good = !name.empty() && name.size() <= kLongest && name.front() != '.' &&
                    std::ranges::all_of(name, is_good);
  return value_of(good ? std::optional<std::string>(name) : std::nullopt);
}

std::optional<Value> mebibytes(std::string_view text, const Policy& /*so_far*/) {
  return value_of(read_mebibytes(text));
}

std::optional<Value> size_or_minus_one(std::string_view text, const Policy& /*so_far*/) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::optional<std::int64_t> result;
  const std::optional<std::uint64_t> bytes = read_size(text);
  if (trimmed(text) == "-1") {
    result = -1;
  } else if (bytes && *bytes <= kMost) {
    result = static_cast<std::int64_t>(*bytes);
  }
  return value_of(result);
}

std::optional<Value> fraction(std::string_view text, const Policy& so_far) {
  return in_range(read_fraction(text), so_far);
}

std::optional<Value> xla_fraction(std::string_view text, const Policy& so_far) {
  return in_range(read_xla_fraction(text), so_far);
}

std::optional<Value> path(std::string_view text, const Policy& /*so_far*/) {
  const std::string_view name = trimmed(text);
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  std::optional<std::string> result;
  if (!name.empty() && name.size() <= kLongestPath && std::ranges::none_of(name, is_control) &&
      !read_boolean(name)) {
    result = name;
  }
  return value_of(result);
}

std::optional<Value> short_text(std::string_view text, const Policy& /*so_far*/) {
  constexpr std::size_t kLongest = 64;
  const std::string_view words = trimmed(text);
  const auto is_printable = [](unsigned char c) { return c >= 0x20 && c < 0x7f; };
  const bool good =
      !words.empty() && words.size() <= kLongest && std::ranges::all_of(words, is_printable);
  return value_of(good ? std::optional<std::string>(words) : std::nullopt);
}

std::optional<Value> frames(std::string_view text, const Policy& /*so_far*/) {
  constexpr std::uint64_t kMostFrames = 64;
  std::optional<std::uint64_t> count = read_count(text);
  if (count && *count > kMostFrames) {
    count.reset();
  }
  return value_of(count);
}

std::optional<Value> label_list(std::string_view text, const Policy& /*so_far*/) {
  const std::string_view list = trimmed(text);
  bool good = !list.empty() && list.size() <= kLongestLabels;
  for (std::size_t start = 0; good && start <= list.size();) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    good = is_label(list.substr(start, end - start));
    start = end + 1;
  }
  return value_of(good ? std::optional<std::string>(list) : std::nullopt);
}

std::optional<Value> allocator(std::string_view text, const Policy& /*so_far*/) {
  return word(kAllocatorWords, text);
}

std::optional<Value> xla_allocator(std::string_view text, const Policy& /*so_far*/) {
  return word(kXlaAllocatorWords, text);
}

std::optional<Value> tf_allocator(std::string_view text, const Policy& /*so_far*/) {
  return word(kTfAllocatorWords, text);
}

std::optional<Value> fraction_of(std::string_view text, const Policy& /*so_far*/) {
  return word(kFractionOfWords, text);
}

std::optional<Value> free_mode(std::string_view text, const Policy& /*so_far*/) {
  return word(kFreeWords, text);
}

std::optional<Value> stream_ordered(std::string_view text, const Policy& /*so_far*/) {
  return word(kStreamOrderedWords, text);
}

std::optional<Value> ipc(std::string_view text, const Policy& /*so_far*/) {
  return word(kIpcWords, text);
}

std::optional<Value> nvml(std::string_view text, const Policy& /*so_far*/) {
  return same_word("auto", trimmed(text)) ? Nvml::kAuto : yes_or_no(text, Nvml::kYes, Nvml::kNo);
}

std::optional<Value> limit_counts(std::string_view text, const Policy& /*so_far*/) {
  return word(kLimitCountsWords, text);
}

std::optional<Value> log_level(std::string_view text, const Policy& /*so_far*/) {
  return word(kLogLevelWords, text);
}

}  // namespace cubfc::config::readers
