// Reads text as pickles of protocol 0 have it: in a line of its own, with escapes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cubfc::recordings {

// Reads Python's "raw-unicode-escape": Latin-1, with \uXXXX and \UXXXXXXXX. Returns UTF-8; nothing
// when an escape cannot be read.
std::optional<std::string> unescaped_unicode(std::string_view line);

// Reads a string as it stands in Python 2 source, with quotes. Returns nothing when it has no
// quotes, or an escape that is not known.
std::optional<std::string> unquoted(std::string_view line);

}  // namespace cubfc::recordings
