// The program that a command line names, and whether a library can be preloaded into it.
#pragma once

#include <string>
#include <vector>

namespace cubfc::cli {

struct FoundProgram {
  std::string path;  // empty: there is none that can be started
  int error = 0;     // an error number, where path is empty
};

// Finds the program as execvp(3) does: in the folders of `search`, a value of $PATH, unless the
// name has a slash.
FoundProgram find_program(const std::string& name, const std::string& search);

// For people: why find_program() has found none.
std::string why_not_found(const std::string& name, const FoundProgram& found);

// Why the dynamic linker would not preload `library` into the program at `path`, or what would go
// wrong: sentences, each with what to do about it. Empty where nothing speaks against it. Of a
// script, its interpreter counts. `preloaded`: what LD_PRELOAD has already. `search`: $PATH.
std::vector<std::string> obstacles_to_preload(const std::string& path, const std::string& library,
                                              const std::string& preloaded,
                                              const std::string& search);

}  // namespace cubfc::cli
