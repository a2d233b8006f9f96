// The columns of the table: what stands in each, how wide it is, and which are left out where there
// is no room. All devices have the same columns and widths, so that values stand below each other.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "cli/top/line.h"
#include "cli/top/look.h"

namespace cubfc::cli::top {

// The widths of the columns, in the order of the keys; 0 for a column that is left out.
using Widths = std::array<std::size_t, kKeys>;

// The widths that the texts of this look need. The columns of users and groups are left out where
// they would say nothing.
Widths wanted_widths(const Look& look);
// Makes each width at least the wanted one. On a screen no column becomes narrower, so that each
// stays where it is.
void widen(Widths& widths, const Widths& wanted);
// Leaves out columns until the rest fits a terminal. The program's column gets all that the others
// leave.
Widths widths_within(const Widths& wanted, std::size_t width);

// Lines of at most `width` columns. `sorted_by`: the title of this key is marked, by its
// style alone.
Line titles_line(const Widths& widths, std::size_t width, const Order* sorted_by);
Line row_line(const Row& row, const Widths& widths, std::size_t width);

// The title of a column: "IN USE".
std::string_view title_of(Key key);

// A command line cut to so many columns: of a path that is too long, the end is kept:
// ".../models/train.py --epochs 3". If even that is too long, its end is cut off.
std::string program_within(std::string_view text, std::size_t columns);

}  // namespace cubfc::cli::top
