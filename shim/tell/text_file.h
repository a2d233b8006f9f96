// Reads small text files, such as those of /proc and of cgroups.
#pragma once

#include <string>
#include <string_view>

namespace cubfc {

// The text of the file; empty if there is no such file. Throws std::bad_alloc.
std::string text_of_file(const std::string& path);

// Calls `look` with each line, without its end.
template <typename Look>
void for_each_line(std::string_view text, Look look) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    look(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace cubfc
