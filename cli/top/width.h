// Counts the columns of a terminal that a text takes, and cuts or fills texts to a number of
// columns. Texts from processes may be any bytes: what would steer a terminal, or cannot be shown,
// becomes '?'.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cubfc::cli::top {

// A text from a process, fit for a terminal. Depends on the locale's LC_CTYPE, which main() does
// not set: call setlocale() before. If the locale is not UTF-8, all that is not ASCII becomes '?'.
std::string shown(std::string_view text);
bool shows_utf8();

// The columns that a text of shown() takes.
std::size_t columns_of(std::string_view text);
// The beginning of a text that takes more columns, with ".." at its end.
std::string cut(std::string_view text, std::size_t columns);
// As cut(), and filled up to this width with blanks behind the text, or before it.
std::string left(std::string_view text, std::size_t columns);
std::string right(std::string_view text, std::size_t columns);
// All of a text in lines of at most so many columns, broken at blanks where possible; at least one
// line.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

}  // namespace cubfc::cli::top
