// How many columns of a terminal a text takes, and a text that takes no more than there are. Texts
// of processes may be any bytes: what a terminal would obey, or cannot show, becomes '?'.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cubfc::cli::top {

// As the locale of LC_CTYPE has it, which main() never sets: call setlocale() before. Where that is
// not UTF-8, all that is not ASCII becomes '?'.
std::string shown(std::string_view text);
bool shows_utf8();

// Of a text that shown() has given.
std::size_t columns_of(std::string_view text);
// Its beginning, with ".." at the end where something is missing.
std::string cut(std::string_view text, std::size_t columns);
// The same, and blanks up to this width: behind it, or before it.
std::string left(std::string_view text, std::size_t columns);
std::string right(std::string_view text, std::size_t columns);
// All of it in lines of at most so many columns, at blanks where there are some; at least one line.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

}  // namespace cubfc::cli::top
