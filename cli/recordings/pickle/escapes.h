// Text as pickles of protocol 0 have it: in a line of its own, with escapes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cubfc::recordings {

// Python's "raw-unicode-escape": Latin-1, and \uXXXX and \UXXXXXXXX. In UTF-8; nothing when an
// escape cannot be read.
std::optional<std::string> unescaped_unicode(std::string_view line);

// A string as Python 2 writes it in its source, with its quotes. Nothing when it has none, or an
// escape that is not known.
std::optional<std::string> unquoted(std::string_view line);

}  // namespace cubfc::recordings
