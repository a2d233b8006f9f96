// What programs write, line by line: what is different every time, and what is different with
// cubfc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cubfc::cli::compare {

// With their ends, so that no byte is lost.
using Lines = std::vector<std::string>;
Lines lines_of(std::string_view text);

// The lines that are in both, in their order.
Lines common(const Lines& first, const Lines& second);

// What is different in `other`, as a diff; empty when there is nothing but what differs between
// `bare` and `again`, too, which are two runs of the same.
Lines differences(const Lines& bare, const Lines& again, const Lines& other);

}  // namespace cubfc::cli::compare
