#include "cli/recordings/pickle/numbers.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>

namespace cubfc::recordings {
namespace {

constexpr const char* kDoesNotFit = "the integer does not fit 64 bits";

// Reads a number that is all of the text.
template <typename Number>
std::optional<Number> read_whole(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

Pickle::Value natural_value(std::uint64_t value) {
  const bool is_signed =
      value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return Pickle::Value(is_signed ? Pickle::Type::kInteger : Pickle::Type::kUnsigned, 0, value);
}

}  // namespace

Pickle::Value bool_value(bool value) {
  return Pickle::Value(Pickle::Type::kBool, 0, value ? 1 : 0);
}

Pickle::Value integer_value(std::int64_t value) {
  return Pickle::Value(Pickle::Type::kInteger, 0, static_cast<std::uint64_t>(value));
}

Pickle::Value float_value(double value) {
  return Pickle::Value(Pickle::Type::kFloat, 0, std::bit_cast<std::uint64_t>(value));
}

ReadNumber read_decimal(std::string_view text) {
  if (const auto integer = read_whole<std::int64_t>(text)) {
    return {integer_value(*integer)};
  }
  if (const auto natural = read_whole<std::uint64_t>(text)) {
    return {natural_value(*natural)};
  }
  const std::size_t other = text.find_first_not_of("0123456789", text.starts_with('-') ? 1 : 0);
  const bool is_integer = !text.empty() && text != "-" && other == text.npos;
  return {Pickle::Value(), is_integer ? kDoesNotFit : "this is no integer"};
}

ReadNumber read_decimal_or_bool(std::string_view text) {
  if (text == "00" || text == "01") {
    return {bool_value(text == "01")};
  }
  return read_decimal(text);
}

ReadNumber read_float(std::string_view text) {
  if (const auto real = read_whole<double>(text)) {
    return {float_value(*real)};
  }
  return {Pickle::Value(), "this is no floating-point number"};
}

ReadNumber read_little_endian(std::string_view bytes) {
  const bool negative = !bytes.empty() && static_cast<signed char>(bytes.back()) < 0;
  if (bytes.size() == 9 && bytes[8] != 0) {
    return {Pickle::Value(), kDoesNotFit};
  }
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  std::memcpy(&value, bytes.data(), std::min<std::size_t>(bytes.size(), sizeof(value)));
  return {bytes.size() == 9 ? natural_value(value)
                            : integer_value(static_cast<std::int64_t>(value))};
}

std::optional<std::uint64_t> read_memo_number(std::string_view text) {
  return read_whole<std::uint64_t>(text);
}

}  // namespace cubfc::recordings
