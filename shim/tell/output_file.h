// Files that the user names and cubfc writes. Neither function follows a link, waits for the reader
// of a pipe, or lets a signal reach the program. Both return in words what is wrong, and nothing if
// all is well. They throw std::bad_alloc.
#pragma once

#include <string>

namespace cubfc {

// Writes a new file beside a regular file of that name, and renames the new file when all of the
// text is in it. Makes the file if there is none. Writes the text to anything else (a pipe, a
// terminal) directly.
std::string replace_file(const std::string& path, const std::string& text);

// Appends the text to the file, which is made if there is none. Makes one system call, if the
// system takes all of the text at once, so that the lines of several processes do not mix.
std::string append_to_file(const std::string& path, const std::string& text);

}  // namespace cubfc
