// What people call a program: that of an interpreter is the script or the module that it runs.
#pragma once

#include <string>
#include <string_view>

namespace cubfc::report {

// Of a command line with spaces between its words: "train.py" of "/usr/bin/python3 -u
// src/train.py", "vllm.entrypoints.api" of "python3 -m vllm.entrypoints.api", "Main" of "java -cp
// a.jar Main", else the file name of the first word. An interpreter that runs none of them has its
// own name.
std::string program_name(std::string_view command_line);

// For a line about it: of an interpreter's that name and the arguments behind it, else as it is.
std::string program_text(std::string_view command_line);

}  // namespace cubfc::report
