// The forms in which a value can be written: booleans, sizes, fractions, and how each is written
// back. Knows text and numbers only, no option and no variable. Every reader takes text that may be
// hostile, ignores white space around it, never throws, does not depend on the locale, and answers
// nothing for text that is not entirely of its form. Pure, so any thread may call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cubfc::config {

/// How much of a device's memory to use, as a share of it: 0.5 is half.
struct Fraction {
  /// What is preallocated. Above 0.
  double start = 0;
  /// The hard limit, a share of the device's total; nothing where only the start was given
  /// ("0.75+").
  std::optional<double> limit;

  bool operator==(const Fraction&) const = default;
};

/// This share of so many bytes, rounded down; the largest number if the share does not fit 64 bits.
[[nodiscard]] std::uint64_t share_of(std::uint64_t bytes, double share) noexcept;

/// How much memory of a device: so many bytes, or a share of what it has.
struct Amount {
  std::uint64_t bytes = 0;
  double share = 0;  ///< above 0: a share of the device's total, and `bytes` says nothing

  [[nodiscard]] std::uint64_t of(std::uint64_t total_bytes) const noexcept {
    return share > 0 ? share_of(total_bytes, share) : bytes;
  }
  [[nodiscard]] bool is_none() const noexcept { return share <= 0 && bytes == 0; }

  bool operator==(const Amount&) const = default;
};

/// Amounts by device: one for each device that is listed, and one for all others.
struct DeviceAmounts {
  std::optional<Amount> others = {};
  std::map<unsigned, Amount> listed = {};  ///< by the device's number, as CUDA counts

  /// The bytes for this device of `total_bytes`; nothing where no amount is set for it.
  [[nodiscard]] std::optional<std::uint64_t> on(unsigned device, std::uint64_t total_bytes) const;
  [[nodiscard]] bool empty() const noexcept { return !others && listed.empty(); }

  bool operator==(const DeviceAmounts&) const = default;
};

/// Without the white space at both ends.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

/// Equal but for the case of ASCII letters, whatever the locale.
[[nodiscard]] bool same_word(std::string_view a, std::string_view b) noexcept;

/// true/false, yes/no, on/off, 1/0 in any case.
[[nodiscard]] std::optional<bool> read_boolean(std::string_view text) noexcept;

/// A whole number, decimal digits only.
[[nodiscard]] std::optional<std::uint64_t> read_count(std::string_view text) noexcept;

/// A size, in bytes: digits alone, or a number and a unit in any case. As in GNU's tools K, M, G
/// and T are powers of 1024, like KiB, MiB, GiB, TiB (and Ki ...); KB, MB, GB, TB are powers of
/// 1000; B is one byte. With a unit the number may have a point ("1.5GiB"; rounded down to a byte).
/// Nothing for what does not fit 64 bits.
[[nodiscard]] std::optional<std::uint64_t> read_size(std::string_view text) noexcept;

/// A size, or a share with a percent sign: "25%". 0, and shares above 100%, are read too.
[[nodiscard]] std::optional<Amount> read_amount(std::string_view text) noexcept;

/// Amounts by device: one, which holds for all, or a list such as "0=8GiB,1=25%", in which one
/// entry may have no number and holds for the others. Each is read by `read`.
[[nodiscard]] std::optional<DeviceAmounts> read_device_amounts(
    std::string_view text, std::optional<Amount> (*read)(std::string_view));

/// A time: a number, which may have a point, and a unit in any case: ms, s, m or min, h; without
/// one, seconds. Rounded down to a millisecond; nothing for what is longer than a year.
[[nodiscard]] std::optional<std::chrono::milliseconds> read_time(std::string_view text) noexcept;

/// A share: "0.5", ".5" or "50%". Digits and one point, no sign, no exponent; 0 and values above 1
/// are read too, whether they are allowed is for the option to say.
[[nodiscard]] std::optional<double> read_share(std::string_view text) noexcept;

/// A share that is both the start and the limit.
[[nodiscard]] std::optional<Fraction> read_fraction(std::string_view text) noexcept;

/// XLA's forms: a share; "0.75+": start with 0.75 and grow without a limit of its own; "0.75-0.85":
/// start with 0.75 and grow to 0.85 at the most. A start above the limit is not a value.
[[nodiscard]] std::optional<Fraction> read_xla_fraction(std::string_view text) noexcept;

/// The size in the largest unit that divides it, in a form that read_size reads back: "8GiB".
[[nodiscard]] std::string size_text(std::uint64_t bytes);

/// "8GiB", "0=8GiB,1=25%" or "8GiB,1=512MiB"; "unset" where there is none.
[[nodiscard]] std::string device_amounts_text(const DeviceAmounts& sizes);

/// The time in the largest unit that divides it, in a form that read_time reads back: "30s".
[[nodiscard]] std::string time_text(std::chrono::milliseconds time);

/// "0.5", the fewest digits that read back as the same number.
[[nodiscard]] std::string share_text(double share);

/// "0.5", "0.75+" or "0.75-0.85".
[[nodiscard]] std::string fraction_text(const Fraction& fraction);

/// The text in double quotes, fit for one line of a terminal or a log: control characters, bytes
/// outside ASCII, quotes and backslashes are escaped as in C, and what is longer than `at_most`
/// bytes is cut with its length said.
[[nodiscard]] std::string quoted(std::string_view text, std::size_t at_most = 60);

/// The text itself where nothing in it had to be escaped or cut, else as `quoted` gives it.
[[nodiscard]] std::string shown(std::string_view text, std::size_t at_most = 60);

/// How many single characters must be put in, taken out or exchanged to turn one into the other.
/// Cost: the product of the two lengths.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace cubfc::config
