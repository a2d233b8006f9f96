// The columns of the table: what stands in each, how wide it is, and which are left out where there
// is no room. The same for all devices, so that the eye finds its way.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "cli/top/line.h"
#include "cli/top/look.h"

namespace cubfc::cli::top {

// Of each column in the order of the keys; 0 for one that is left out.
using Widths = std::array<std::size_t, kKeys>;

// As wide as these texts need it. Users and groups have no column where there is nothing to tell.
Widths wanted_widths(const Look& look);
// The larger ones: on a screen no column becomes narrower, so that each stays where it is.
void widen(Widths& widths, const Widths& wanted);
// What of it a terminal has room for. The program takes all that the others leave.
Widths widths_within(const Widths& wanted, std::size_t width);

// At most `width` columns. `sorted_by`: its title is marked, by its looks alone.
Line titles_line(const Widths& widths, std::size_t width, const Order* sorted_by);
Line row_line(const Row& row, const Widths& widths, std::size_t width);

// "IN USE".
std::string_view title_of(Key key);

// A command line in so many columns: of a path that is too long its end, ".../models/train.py
// --epochs 3"; what is too long even then is cut.
std::string program_within(std::string_view text, std::size_t columns);

}  // namespace cubfc::cli::top
