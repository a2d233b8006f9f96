// The line of an instruction, by the tables that CPython keeps with its code. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "shim/record/python_layout.h"

namespace cubfc {

// `table` may be anything; `is_cut`: its end is missing. `instruction`: its place in the code, in
// bytes. 0: the table does not tell.
std::uint32_t python_line(PythonLayout::Lines kind, std::string_view table, bool is_cut,
                          std::int32_t first_line, std::int64_t instruction) noexcept;

}  // namespace cubfc
