// The environment as a program under cubfc will see it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/policy.h"

namespace cubfc::cli {

// By name.
using Variables = std::map<std::string, std::string>;

// Empty where it is not set.
std::string variable(const char* name);

// Where programs are looked for: $PATH.
std::string search_path();

// The environment with these variables in place of its own; those that are empty here are not in
// it.
std::vector<std::string> environment_with(const Variables& changes);

// For execve: the last one is nullptr. They point into the strings.
std::vector<char*> pointers_to(const std::vector<std::string>& strings);

// What is in force with these variables beside those of this process, before which they count.
config::Policy policy_with(const Variables& settings);

}  // namespace cubfc::cli
