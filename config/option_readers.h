// How the value of each option is read, for the table (options.cpp): functions from a text to a
// Value, or to nothing for what is not accepted.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "config/options.h"

namespace cubfc::config::readers {

inline constexpr std::size_t kLongestPath = 4095;  // PATH_MAX less its NUL

std::optional<Value> boolean(std::string_view text, const Policy& so_far);
std::optional<Value> preallocate(std::string_view text, const Policy& so_far);
std::optional<Value> xla_preallocate(std::string_view text, const Policy& so_far);
std::optional<Value> growth(std::string_view text, const Policy& so_far);
std::optional<Value> size(std::string_view text, const Policy& so_far);
std::optional<Value> time_above_zero(std::string_view text, const Policy& so_far);
std::optional<Value> size_above_zero(std::string_view text, const Policy& so_far);
std::optional<Value> device_amounts(std::string_view text, const Policy& so_far);
std::optional<Value> their_device_amounts(std::string_view text, const Policy& so_far);
std::optional<Value> group_name(std::string_view text, const Policy& so_far);
std::optional<Value> mebibytes(std::string_view text, const Policy& so_far);
std::optional<Value> mebibytes_of_devices(std::string_view text, const Policy& so_far);
std::optional<Value> some_mebibytes_of_devices(std::string_view text, const Policy& so_far);
std::optional<Value> size_or_minus_one(std::string_view text, const Policy& so_far);
std::optional<Value> fraction(std::string_view text, const Policy& so_far);
std::optional<Value> xla_fraction(std::string_view text, const Policy& so_far);
std::optional<Value> path(std::string_view text, const Policy& so_far);
std::optional<Value> frames(std::string_view text, const Policy& so_far);
std::optional<Value> short_text(std::string_view text, const Policy& so_far);
std::optional<Value> label_list(std::string_view text, const Policy& so_far);
std::optional<Value> allocator(std::string_view text, const Policy& so_far);
std::optional<Value> xla_allocator(std::string_view text, const Policy& so_far);
std::optional<Value> tf_allocator(std::string_view text, const Policy& so_far);
std::optional<Value> fraction_of(std::string_view text, const Policy& so_far);
std::optional<Value> free_mode(std::string_view text, const Policy& so_far);
std::optional<Value> stream_ordered(std::string_view text, const Policy& so_far);
std::optional<Value> ipc(std::string_view text, const Policy& so_far);
std::optional<Value> nvml(std::string_view text, const Policy& so_far);
std::optional<Value> limit_counts(std::string_view text, const Policy& so_far);
std::optional<Value> log_level(std::string_view text, const Policy& so_far);

}  // namespace cubfc::config::readers
