// The commands and flags that CLI11 has, for the man page and the shells' completions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace cubfc::cli::documentation {

struct Flag {
  std::vector<std::string> names;  // "-q", "--quiet"
  std::string description;
  std::string value;  // what stands for its value, such as "FILE"; empty: it takes none
  std::vector<std::string> values;  // all that are accepted, where these are words
  bool is_path() const { return value == "FILE"; }
};

struct Command {
  std::string name;  // "cubfc" for Tree::program
  std::string description;
  std::string positional;           // "PROGRAM", "FILE"; empty: none
  std::vector<std::string> values;  // all that are accepted for it, where these are words
  bool starts_program = false;
  std::string footer;
  std::vector<Flag> flags;
};

// The flags of `cubfc` itself, and its commands without the hidden ones.
struct Tree {
  Command program;
  std::vector<Command> commands;
};
Tree tree_of(const CLI::App& app);

// "a", "b" and "c" where the description is "a, b or c", or ends with "accepted: a, b or c". Empty
// where it says something else.
std::vector<std::string> values_in(const std::string& description);

}  // namespace cubfc::cli::documentation
