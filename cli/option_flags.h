// The options of cubfc as flags of a command: CUBFC_MEM_FRACTION is --mem-fraction, with the same
// values.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "config/options.h"

namespace cubfc::cli {

// The name of the flag, such as "--mem-fraction".
std::string flag_of(const config::Option& option);

// Whether the option is true or false, so that its flag needs no value.
bool is_boolean(const config::Option& option);

// What stands for the option's value in help, man page and completions: "" for a boolean; "SIZE",
// "FILE" and the like, which value_names_text() explains; else "VALUE".
std::string value_name(const config::Option& option);
std::string value_names_text();
// What the option means, its default, and, of a "VALUE", what is accepted.
std::string help_of(const config::Option& option);
// The heading under which the help shows the option: "Limits, and who shares a GPU".
std::string heading_of(const config::Option& option);

// Reads the value of a flag. `so_far`: see config::Reader. Throws Failure, which names the flag and
// says what is accepted.
config::Value read_flag(const config::Option& option, const std::string& flag,
                        const std::string& text, const config::Policy& so_far);

// Adds --library, for a command that preloads.
void add_library_option(CLI::App& command, std::optional<std::string>& into);

}  // namespace cubfc::cli
