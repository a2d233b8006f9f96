// The program that a command line names, and whether a library can be preloaded into it.
#pragma once

#include <string>
#include <vector>

namespace cubfc::cli {

struct FoundProgram {
  std::string path;  // empty: it cannot be started
  int error = 0;     // errno then
};

// As execvp(3) finds it: in the folders of `search`, $PATH, unless the name has a slash.
FoundProgram find_program(const std::string& name, const std::string& search);

// For people: why there is none to start.
std::string why_not_found(const std::string& name, const FoundProgram& found);

// Why the dynamic linker would not preload `library` into the program at `path`, or what would go
// wrong, each a sentence with what to do about it; empty where nothing speaks against it. Of a
// script it is its interpreter that counts. `preloaded`: the rest of LD_PRELOAD.
std::vector<std::string> obstacles_to_preload(const std::string& path, const std::string& library,
                                              const std::string& preloaded,
                                              const std::string& search);

}  // namespace cubfc::cli
