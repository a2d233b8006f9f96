// Files that the user names and cubfc writes. Neither function follows a link, waits for the reader
// of a pipe, or lets the program be sent a signal; both answer what is wrong in words, and nothing
// if all is well. They throw std::bad_alloc.
#pragma once

#include <string>

namespace cubfc {

// An ordinary file of that name is replaced when the new one is whole; into anything else (a pipe,
// a terminal) the text is written.
std::string replace_file(const std::string& path, const std::string& text);

// Behind what is there, in one write, so that the lines of several processes do not mix.
std::string append_to_file(const std::string& path, const std::string& text);

}  // namespace cubfc
