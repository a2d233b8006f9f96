// Files that the user names and cubfc writes. Neither function follows a link, waits for the reader
// of a pipe, or lets a signal reach the program. Both return in words what is wrong, and nothing if
// all is well. They throw std::bad_alloc.
#pragma once

#include <string>

namespace cubfc {

// Replaces a regular file of that name once the new one is whole, or makes one. Into anything else
// (a pipe, a terminal) writes the text.
std::string replace_file(const std::string& path, const std::string& text);

// Writes after what is there: with one system call, if the system takes all of it, so that the
// lines of several processes do not mix.
std::string append_to_file(const std::string& path, const std::string& text);

}  // namespace cubfc
