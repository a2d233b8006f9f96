// Readers and writers of single values. std::from_chars and std::to_chars, because strtod and its
// kin follow the program's locale: under a German one ".5" would not be a number.
#include "config/values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <system_error>
#include <vector>

namespace cubfc::config {
namespace {

constexpr std::uint64_t kKibi = 1024;
constexpr std::uint64_t kKilo = 1000;

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::array kUnits = std::to_array<Unit>({
    {"b", 1},
    {"k", kKibi},
    {"ki", kKibi},
    {"kib", kKibi},
    {"kb", kKilo},
    {"m", kKibi* kKibi},
    {"mi", kKibi* kKibi},
    {"mib", kKibi* kKibi},
    {"mb", kKilo* kKilo},
    {"g", kKibi* kKibi* kKibi},
    {"gi", kKibi* kKibi* kKibi},
    {"gib", kKibi* kKibi* kKibi},
    {"gb", kKilo* kKilo* kKilo},
    {"t", kKibi* kKibi* kKibi* kKibi},
    {"ti", kKibi* kKibi* kKibi* kKibi},
    {"tib", kKibi* kKibi* kKibi* kKibi},
    {"tb", kKilo* kKilo* kKilo* kKilo},
});

constexpr bool is_space(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

constexpr bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

constexpr char lowered(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Digits with at most one point among them. from_chars alone would take "1e9", "inf" and "-1" too.
std::optional<double> read_decimal(std::string_view text) noexcept {
  const auto digits = std::ranges::count_if(text, is_digit);
  const auto points = std::ranges::count(text, '.');
  if (digits == 0 || points > 1 || static_cast<std::size_t>(digits + points) != text.size()) {
    return std::nullopt;
  }
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::uint64_t> unit_bytes(std::string_view name) noexcept {
  const auto* const unit =
      std::ranges::find_if(kUnits, [name](const Unit& u) { return same_word(u.name, name); });
  if (unit == kUnits.end()) {
    return std::nullopt;
  }
  return unit->bytes;
}

struct TimeUnit {
  std::string_view name;
  std::int64_t ms;
};
// The largest first.
constexpr std::array kTimeUnits = std::to_array<TimeUnit>(
    {{"h", 3'600'000}, {"min", 60'000}, {"m", 60'000}, {"s", 1000}, {"", 1000}, {"ms", 1}});

}  // namespace

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

bool same_word(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, {}, lowered, lowered);
}

std::optional<bool> read_boolean(std::string_view text) noexcept {
  const std::string_view word = trimmed(text);
  for (const std::string_view yes : {"true", "1", "yes", "on"}) {
    if (same_word(word, yes)) {
      return true;
    }
  }
  for (const std::string_view no : {"false", "0", "no", "off"}) {
    if (same_word(word, no)) {
      return false;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> read_count(std::string_view text) noexcept {
  const std::string_view digits = trimmed(text);
  if (digits.empty() || !std::ranges::all_of(digits, is_digit)) {
    return std::nullopt;
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::uint64_t> read_size(std::string_view text) noexcept {
  const std::string_view all = trimmed(text);
  const std::size_t number_length = std::min(all.find_first_not_of("0123456789."), all.size());
  const std::string_view number = all.substr(0, number_length);
  const std::string_view unit_name = trimmed(all.substr(number_length));
  if (unit_name.empty()) {
    return read_count(number);
  }
  const std::optional<std::uint64_t> unit = unit_bytes(unit_name);
  if (!unit) {
    return std::nullopt;
  }
  if (number.find('.') == std::string_view::npos) {
    const std::optional<std::uint64_t> count = read_count(number);
    if (!count || *count > std::numeric_limits<std::uint64_t>::max() / *unit) {
      return std::nullopt;
    }
    return *count * *unit;
  }
  const std::optional<double> count = read_decimal(number);
  // 2^64 is exact as a double; what is below it fits.
  constexpr double kTooMuch = 18446744073709551616.0;
  if (!count || *count * static_cast<double>(*unit) >= kTooMuch) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(*count * static_cast<double>(*unit));
}

// long double has the 64 bits that a size may have, so that a share of 1 is exactly the whole.
std::uint64_t share_of(std::uint64_t bytes, double share) noexcept {
  const long double product = static_cast<long double>(bytes) * static_cast<long double>(share);
  constexpr long double kTooMuch = 18446744073709551616.0L;  // 2^64
  return product < kTooMuch ? static_cast<std::uint64_t>(product)
                            : std::numeric_limits<std::uint64_t>::max();
}

std::optional<std::uint64_t> DeviceAmounts::on(unsigned device, std::uint64_t total_bytes) const {
  const auto found = listed.find(device);
  const std::optional<Amount> amount = found == listed.end() ? others : found->second;
  return amount ? std::optional(amount->of(total_bytes)) : std::nullopt;
}

std::optional<Amount> read_amount(std::string_view text) noexcept {
  std::optional<Amount> amount;
  if (trimmed(text).ends_with('%')) {
    if (const std::optional<double> share = read_share(text)) {
      amount = Amount{.bytes = 0, .share = *share};
    }
  } else if (const std::optional<std::uint64_t> bytes = read_size(text)) {
    amount = Amount{.bytes = *bytes, .share = 0};
  }
  return amount;
}

std::optional<DeviceAmounts> read_device_amounts(std::string_view text,
                                                 std::optional<Amount> (*read)(std::string_view)) {
  constexpr std::uint64_t kMostDevices = 1024;
  DeviceAmounts amounts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string_view entry = text.substr(start, end - start);
    const std::size_t equals = entry.find('=');
    const bool is_numbered = equals != std::string_view::npos;
    const std::optional<Amount> amount = read(is_numbered ? entry.substr(equals + 1) : entry);
    const std::optional<std::uint64_t> number =
        is_numbered ? read_count(entry.substr(0, equals)) : std::nullopt;
    const bool is_known = is_numbered ? number && *number < kMostDevices &&
                                            amounts.listed.contains(static_cast<unsigned>(*number))
                                      : amounts.others.has_value();
    if (!amount || is_known || (is_numbered && (!number || *number >= kMostDevices))) {
      return std::nullopt;
    }
    if (is_numbered) {
      amounts.listed[static_cast<unsigned>(*number)] = *amount;
    } else {
      amounts.others = amount;
    }
    start = end + 1;
  }
  return amounts;
}

std::optional<std::chrono::milliseconds> read_time(std::string_view text) noexcept {
  const std::string_view all = trimmed(text);
  const std::size_t number_length = std::min(all.find_first_not_of("0123456789."), all.size());
  const std::string_view name = trimmed(all.substr(number_length));
  const std::optional<double> count = read_decimal(all.substr(0, number_length));
  const auto* const unit = std::ranges::find_if(
      kTimeUnits, [&](const TimeUnit& each) { return same_word(each.name, name); });
  constexpr double kYearMs = 365.0 * 24 * 3600 * 1000;
  if (!count || unit == kTimeUnits.end() || *count * static_cast<double>(unit->ms) > kYearMs) {
    return std::nullopt;
  }
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(*count * static_cast<double>(unit->ms)));
}

std::optional<double> read_share(std::string_view text) noexcept {
  std::string_view number = trimmed(text);
  const bool percent = number.ends_with('%');
  if (percent) {
    number.remove_suffix(1);
    number = trimmed(number);
  }
  const std::optional<double> value = read_decimal(number);
  if (!value) {
    return std::nullopt;
  }
  return percent ? *value / 100.0 : *value;
}

std::optional<Fraction> read_fraction(std::string_view text) noexcept {
  const std::optional<double> share = read_share(text);
  if (!share) {
    return std::nullopt;
  }
  return Fraction{.start = *share, .limit = *share};
}

std::optional<Fraction> read_xla_fraction(std::string_view text) noexcept {
  const std::string_view all = trimmed(text);
  if (all.ends_with('+')) {
    const std::optional<double> start = read_share(all.substr(0, all.size() - 1));
    if (!start) {
      return std::nullopt;
    }
    return Fraction{.start = *start, .limit = std::nullopt};
  }
  const std::size_t dash = all.find('-');
  if (dash == std::string_view::npos) {
    return read_fraction(all);
  }
  const std::optional<double> start = read_share(all.substr(0, dash));
  const std::optional<double> limit = read_share(all.substr(dash + 1));
  if (!start || !limit || *start > *limit) {
    return std::nullopt;
  }
  return Fraction{.start = *start, .limit = *limit};
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array kNames = std::to_array<std::string_view>({"", "KiB", "MiB", "GiB", "TiB"});
  std::size_t unit = 0;
  while (bytes != 0 && bytes % kKibi == 0 && unit + 1 < kNames.size()) {
    bytes /= kKibi;
    ++unit;
  }
  return std::to_string(bytes).append(kNames.at(unit));
}

std::string device_amounts_text(const DeviceAmounts& amounts) {
  const auto text_of = [](const Amount& amount) {
    return amount.share > 0 ? share_text(amount.share * 100) + "%" : size_text(amount.bytes);
  };
  std::string text = amounts.others ? text_of(*amounts.others) : "";
  for (const auto& [device, amount] : amounts.listed) {
    text += (text.empty() ? "" : ",") + std::to_string(device) + "=" + text_of(amount);
  }
  return text.empty() ? "unset" : text;
}

std::string time_text(std::chrono::milliseconds time) {
  for (const TimeUnit& unit : kTimeUnits) {
    if (time.count() % unit.ms == 0 && !unit.name.empty()) {
      return std::to_string(time.count() / unit.ms) + std::string(unit.name);
    }
  }
  return {};
}

std::string share_text(double share) {
  std::array<char, 400> buffer{};  // a double without an exponent takes up to 327 characters
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), share, std::chars_format::fixed);
  return error == std::errc() ? std::string(buffer.data(), end) : std::string("?");
}

std::string fraction_text(const Fraction& fraction) {
  std::string text = share_text(fraction.start);
  if (!fraction.limit) {
    return text + "+";
  }
  if (*fraction.limit != fraction.start) {
    text += '-';
    text += share_text(*fraction.limit);
  }
  return text;
}

std::string quoted(std::string_view text, std::size_t at_most) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text.substr(0, at_most)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result.append({'\\', c});
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte >= 0x7f) {
      result.append({'\\', 'x', kHex[byte >> 4U], kHex[byte & 0xfU]});
    } else {
      result += c;
    }
  }
  result += '"';
  if (text.size() > at_most) {
    result += "... (" + std::to_string(text.size()) + " characters)";
  }
  return result;
}

std::string shown(std::string_view text, std::size_t at_most) {
  std::string result = quoted(text, at_most);
  if (result.size() == text.size() + 2) {
    return std::string(text);
  }
  return result;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // One row of the usual table: row[j] is the distance of a's first characters to b's first j.
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t exchanged = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({exchanged, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace cubfc::config
