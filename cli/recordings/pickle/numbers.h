// Reads integers and floats as pickles have them, in lines and in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cli/recordings/pickle.h"

namespace cubfc::recordings {

Pickle::Value bool_value(bool value);
Pickle::Value integer_value(std::int64_t value);
Pickle::Value float_value(double value);

// A number, or in `fault` why there is none.
struct ReadNumber {
  Pickle::Value value;
  const char* fault = nullptr;
};

// Reads an integer in decimal digits.
ReadNumber read_decimal(std::string_view text);
// As read_decimal(), but "00" and "01" are False and True, as protocols 0 and 1 write them.
ReadNumber read_decimal_or_bool(std::string_view text);
ReadNumber read_float(std::string_view text);
// Reads an integer in two's complement, the lowest byte first; 9 bytes at most.
ReadNumber read_little_endian(std::string_view bytes);

// Reads the number of a value in the memo, in decimal digits.
std::optional<std::uint64_t> read_memo_number(std::string_view text);

}  // namespace cubfc::recordings
