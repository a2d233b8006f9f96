// Checks of numbers on the command line, whose messages say what is accepted.
#pragma once

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>

#include "config/values.h"

namespace cubfc::cli {

// Accepts a whole number from `least` to `most`; says of any other text that it is no `no`. Adds no
// text to the help.
inline CLI::Validator whole_number(std::uint64_t least, std::uint64_t most, const std::string& no) {
  return {[=](std::string& text) {
            const auto number = config::read_count(text);
            return number && *number >= least && *number <= most
                       ? std::string()
                       : config::quoted(text) + " is no " + no;
          },
          ""};
}

inline CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  return whole_number(least, most,
                      "whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

// As whole_number(), for numbers with a fraction. `no` and `unit` are words of the message, such as
// "time" and " seconds".
inline CLI::Validator fraction(double least, double most, const std::string& no,
                               const std::string& unit) {
  const auto is_one = [=](const std::string& text) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && stop == end && number >= least && number <= most;
  };
  const auto short_text = [](double number) {
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
    return std::string(text.data(), end);
  };
  return {[=](std::string& text) {
            return is_one(text) ? std::string()
                                : config::quoted(text) + " is no " + no + " from " +
                                      short_text(least) + " to " + short_text(most) + unit;
          },
          ""};
}

// A time in seconds.
inline CLI::Validator seconds(double least, double most) {
  return fraction(least, most, "time", " seconds");
}

// The number of a process.
inline CLI::Validator process_number() {
  return whole_number(1, std::numeric_limits<pid_t>::max(),
                      "process id; `cubfc top --once` lists those under cubfc");
}

}  // namespace cubfc::cli
