// The name that people use for a program. An interpreter has the name of the script or module that
// it runs.
#pragma once

#include <string>
#include <string_view>

namespace cubfc::report {

// The program's name, from a command line with spaces between its words: "train.py" for
// "/usr/bin/python3 -u src/train.py", "vllm.entrypoints.api" for "python3 -m vllm.entrypoints.api",
// "Main" for "java -cp a.jar Main"; for all others the file name of the first word, also for an
// interpreter that runs neither a script nor a module.
std::string program_name(std::string_view command_line);

// The command line for a heading: if an interpreter runs a script or a module, its name and the
// arguments behind it; else the whole command line.
std::string program_text(std::string_view command_line);

}  // namespace cubfc::report
