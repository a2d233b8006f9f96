// The tree of commands and flags as CLI11 has it, for what is written from it: the man page and the
// shells' completions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cubfc::cli::documentation {

struct Flag {
  std::vector<std::string> names;  // "-q", "--quiet"
  std::string description;
  std::string value;                // what stands for its value; empty: it takes none
  std::vector<std::string> values;  // all that are accepted, where these are words
  bool is_path() const { return value == "FILE"; }
};

struct Command {
  std::string name;  // "cubfc" for what stands before a command
  std::string description;
  std::string positional;           // "PROGRAM", "FILE"; empty: none
  std::vector<std::string> values;  // all that are accepted for it, where these are words
  bool starts_program = false;
  std::string footer;
  std::vector<Flag> flags;
};

// The program's own flags, and the commands that a user is to see.
struct Tree {
  Command program;
  std::vector<Command> commands;
};
Tree tree_of(const CLI::App& app);

// a, b and c where a description is "a, b or c", or ends with "accepted: a, b or c"; empty where it
// says something else.
std::vector<std::string> values_in(const std::string& description);

}  // namespace cubfc::cli::documentation
