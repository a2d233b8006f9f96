// Finds the line of an instruction in the tables that CPython keeps with its code. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "shim/record/python_layout.h"

namespace cubfc {

// `table` may hold anything; `is_cut`: its end is missing. `instruction`: the place in the code, in
// bytes. Returns 0 if the table does not tell the line.
std::uint32_t python_line(PythonLayout::Lines kind, std::string_view table, bool is_cut,
                          std::int32_t first_line, std::int64_t instruction) noexcept;

}  // namespace cubfc
